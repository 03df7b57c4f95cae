/** The TypeScript type of a JSON Schema that is written as a literal; what it cannot say is `unknown`. */
export {};
