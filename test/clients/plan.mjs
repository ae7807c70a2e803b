// Runs a plan with one MCP client and prints what came back.
//
// The plan is one JSON object on standard input:
//
//   {
//     "target": {"url": "http://…/mcp"}                        streamable HTTP
//             | {"sse": "http://…/sse"}                        HTTP+SSE (v1 client only)
//             | {"command": ["node", "…"], "env": {…}},        stdio
//     "mode":  "legacy" | "modern" | "auto",                   v2 client only
//     "revision": "2025-03-26",                                v1 client only: what it proposes, the newest it knows when it is "" or not there
//     "steps": [{"method": "tools/call", "params": {…}, "progress": 2}, …]
//   }
//
// A step names a JSON-RPC method and is carried out by the client's own typed function for it, so that the client's validation applies. Lists
// follow every page: their result is {"items": […], "pages": n}. With "progress" the step asks for progress, and waits a bounded time for that
// many updates, which need not have been handled when the result is.
//
// One JSON line per step goes to standard output, in the order of the plan: {"method", "result"} or {"method", "error": {code, message, data}},
// and "progress": […], the updates' params, where it was asked for. A line for the pseudo-method "connect" comes first, with what the client learned of the server.
// Nothing is cut. The exit status is 0 whenever every step was carried out, with or without errors in them; a connection that fails ends the
// run with exit status 1 after its "connect" line.

import { setTimeout as sleep } from 'node:timers/promises';

const MAX_PAGES = 1000; // a server whose cursors never end must not hold the test
const PROGRESS_WITHIN = 10_000; // ms

const lists = {
  'tools/list': ['listTools', 'tools'],
  'resources/list': ['listResources', 'resources'],
  'resources/templates/list': ['listResourceTemplates', 'resourceTemplates'],
  'prompts/list': ['listPrompts', 'prompts']
};

const withParams = {
  'tools/call': 'callTool',
  'resources/read': 'readResource',
  'prompts/get': 'getPrompt',
  'completion/complete': 'complete'
};

export async function readPlan() {
  let text = '';
  for await (const chunk of process.stdin) text += chunk;
  return JSON.parse(text);
}

// run connects client and carries out the steps. The adapter hides where the two generations of the client differ:
// connect(), onProgress(handler), describe(), close(), and client, whose functions have the same names in both.
export async function run(plan, adapter) {
  try {
    await adapter.connect();
  } catch (error) {
    await print({ method: 'connect', error: describeError(error) });
    process.exit(1);
  }
  await print({ method: 'connect', result: adapter.describe() });
  // Not the client's own onprogress: it forgets the call when the result comes, and with it the updates that came just before.
  const updates = [];
  adapter.onProgress((notification) => updates.push(notification.params));
  for (const [i, step] of plan.steps.entries()) {
    const line = { method: step.method };
    const token = `step-${i}`;
    const params = step.progress ? { ...step.params, _meta: { progressToken: token } } : (step.params ?? {});
    try {
      line.result = await carryOut(step.method, params, adapter.client);
    } catch (error) {
      line.error = describeError(error);
    }
    if (step.progress) {
      const mine = () => updates.filter((update) => update.progressToken === token);
      for (const end = Date.now() + PROGRESS_WITHIN; mine().length < step.progress && Date.now() < end; ) await sleep(10);
      line.progress = mine();
    }
    await print(line);
  }
  await adapter.close();
  process.exit(0); // a keep-alive socket or a child's pipe may not hold the process
}

async function carryOut(method, params, client) {
  if (method in lists) {
    const [name, member] = lists[method];
    const items = [];
    let pages = 0;
    let cursor;
    do {
      const page = await client[name](cursor === undefined ? params : { ...params, cursor });
      items.push(...page[member]);
      cursor = page.nextCursor;
      if (++pages > MAX_PAGES) throw new Error(`${method}: more than ${MAX_PAGES} pages`);
    } while (cursor !== undefined);
    return { items, pages };
  }
  if (method in withParams) return client[withParams[method]](params);
  if (method === 'logging/setLevel') return client.setLoggingLevel(params.level);
  if (method === 'ping') return client.ping();
  throw new Error(`the plan names a method that this client cannot carry out: ${method}`);
}

function describeError(error) {
  return {
    code: typeof error?.code === 'number' ? error.code : undefined,
    message: String(error?.message ?? error),
    data: error?.data
  };
}

function print(line) {
  return new Promise((resolve) => process.stdout.write(JSON.stringify(line) + '\n', resolve));
}
