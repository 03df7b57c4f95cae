/** The TypeScript type of a JSON Schema that is written as a literal; what it cannot say is `unknown`. */

type Named = { string: string; number: number; integer: number; boolean: boolean; null: null };

export type FromSchema<S> = S extends { readonly const: infer Only }
  ? Only
  : S extends { readonly enum: readonly (infer Choice)[] }
    ? Choice
    : S extends { readonly type: infer Type extends keyof Named }
      ? Named[Type]
      : S extends { readonly type: 'array'; readonly items: infer Items }
        ? FromSchema<Items>[]
        : S extends { readonly type: 'array' }
          ? unknown[]
          : S extends { readonly properties: infer Properties }
            ? FromProperties<Properties, Required<S>>
            : S extends { readonly type: 'object' }
              ? Record<string, unknown>
              : unknown;

type Required<S> = S extends { readonly required: readonly (infer Name)[] } ? Name : never;

type FromProperties<Properties, Needed> = Flat<
  { -readonly [Name in keyof Properties as Name extends Needed ? Name : never]: FromSchema<Properties[Name]> } & {
    -readonly [Name in keyof Properties as Name extends Needed ? never : Name]?: FromSchema<Properties[Name]>;
  }
>;

/** An intersection as one object. */
export type Flat<T> = { [Key in keyof T]: T[Key] };
