/** The part of Standard Schema (standardschema.dev) that is used here; zod, valibot, arktype and others speak it. */

export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Result<Output> | Promise<Result<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

/** One that also gives its JSON Schema. */
export interface DescribedSchema<Input = unknown, Output = Input> extends StandardSchema<Input, Output> {
  readonly '~standard': StandardSchema<Input, Output>['~standard'] & {
    readonly jsonSchema: {
      readonly input: (options: { target: 'draft-2020-12' }) => Record<string, unknown>;
      readonly output: (options: { target: 'draft-2020-12' }) => Record<string, unknown>;
    };
  };
}

export type Result<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

export interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

export type InputOf<S> = S extends StandardSchema<infer Input, unknown> ? Input : never;
export type OutputOf<S> = S extends { '~standard': { types?: { output: infer Output } | undefined } } ? Output : never;
