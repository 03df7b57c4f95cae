/** The part of Standard Schema (standardschema.dev) that is used here; zod, valibot, arktype and others speak it. */
export {};
