/** How a tool server is: as bad as the worst of its tools. */
const ORDER = ['healthy', 'degraded', 'unhealthy'];
const PATIENCE_MS = 1_500; // the hall waits two seconds for the whole
export async function healthOf(served) {
    const found = await Promise.all(served.map(async (each) => [each.declaration.name, await statusOf(each)]));
    const tools = new Map();
    for (const [name, status] of found)
        tools.set(name, worse(tools.get(name) ?? 'healthy', status));
    return { status: [...tools.values()].reduce(worse, 'healthy'), components: { tools: Object.fromEntries(tools) } };
}
/** A check that fails, says nothing known or takes too long is a bad sign by itself. */
async function statusOf(served) {
    let timer;
    const late = new Promise((resolve) => {
        timer = setTimeout(() => resolve('unhealthy'), PATIENCE_MS);
    });
    const check = served.health().then((said) => ORDER.find((each) => each === said) ?? 'unhealthy', () => 'unhealthy');
    try {
        return await Promise.race([check, late]);
    }
    finally {
        clearTimeout(timer);
    }
}
function worse(one, other) {
    return ORDER.indexOf(one) > ORDER.indexOf(other) ? one : other;
}
