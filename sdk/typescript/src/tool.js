/** Tools and toolkits as an author writes them. */
export function tool(spec) {
    return { name: spec.name, spec: spec };
}
export class Toolkit {
    spec;
    name;
    version;
    tools;
    constructor(spec) {
        this.spec = spec;
        this.name = spec.name;
        this.version = spec.version;
        this.tools = spec.tools;
    }
}
export function toolkit(spec) {
    return new Toolkit(spec);
}
