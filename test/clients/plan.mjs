// Runs a plan with one MCP client and prints what came back.
//
// The plan is one JSON object on standard input:
//
//   {
//     "target": {"url": "http://…/mcp", "oauth": true}         streamable HTTP; with oauth (v2 client only) the user agrees to what is asked for
//             | {"sse": "http://…/sse"}                        HTTP+SSE (v1 client only)
//             | {"command": ["node", "…"], "env": {…}},        stdio
//     "mode":  "legacy" | "modern" | "auto",                   v2 client only
//     "revision": "2025-03-26",                                v1 client only: what it proposes, the newest it knows when it is "" or not there
//     "answers": true,                                         the client declares every capability and answers what it is asked, see user.mjs
//     "declines": true,                                        beside answers: its user says no to every question
//     "steps": [{"method": "tools/call", "params": {…}, "progress": 2}, …]
//   }
//
// A step names a JSON-RPC method and is carried out by the client's own typed function for it, so that the client's validation applies. Lists
// follow every page: their result is {"items": […], "pages": n}. With "progress" the step asks for progress, and waits a bounded time for that
// many updates, which need not have been handled when the result is. With "cancel": true it asks for progress, and is cancelled at the first update.
// With "loose": true the request is sent as it stands, and the client takes any object for a result: what its types do not know is in it, too.
// With "await": [{"method", "has"}, …] it waits, at most "within" milliseconds, until for each of them an event with that method and that text in its params came;
// with "until": {"method", "has"} it is repeated after each event with that method until that text is in its result, as a client does with lists;
// with "during" another step, which has no result of its own, is sent while this one runs.
// A client that answers hears of changed lists too, and may subscribe to resources in either era: "resources/subscribe" and "resources/unsubscribe".
//
// One JSON line per step goes to standard output, in the order of the plan: {"method", "result"} or {"method", "error": {code, message, data}},
// "progress": […], the updates' params, where it was asked for, and, of a client that answers, "events": [{"method", "params"}, …], what the client
// was asked and told since the step before. A line for the pseudo-method "connect" comes first, with what the client learned of the server.
// Nothing is cut. The exit status is 0 whenever every step was carried out, with or without errors in them; a connection that fails ends the
// run with exit status 1 after its "connect" line.

import { setTimeout as sleep } from 'node:timers/promises';

const MAX_PAGES = 1000; // a server whose cursors never end must not hold the test
const PROGRESS_WITHIN = 30_000; // ms
const EVENTS_WITHIN = 45_000; // ms

const lists = {
  'tools/list': ['listTools', 'tools'],
  'resources/list': ['listResources', 'resources'],
  'resources/templates/list': ['listResourceTemplates', 'resourceTemplates'],
  'prompts/list': ['listPrompts', 'prompts']
};

const withParams = {
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
// connect(), onProgress(handler), onEvent(handler), callTool(params, options), subscribe(uri), unsubscribe(uri), describe(), close(), and client, whose
// functions have the same names in both; loose(method, params) sends a request of any method, and takes any result.
export async function run(plan, adapter) {
  const events = [];
  if (plan.answers) adapter.onEvent((method, params) => events.push({ method, params }));
  try {
    await adapter.connect();
  } catch (error) {
    await print({ method: 'connect', error: describeError(error) });
    process.exit(1);
  }
  await print({ method: 'connect', result: adapter.describe() });
  // Not the client's own onprogress: it forgets the call when the result comes, and with it the updates that came just before.
  const updates = [];
  const cancels = new Map(); // by progress token
  adapter.onProgress((notification) => {
    updates.push(notification.params);
    cancels.get(notification.params.progressToken)?.abort();
  });
  for (const [i, step] of plan.steps.entries()) {
    const line = { method: step.method };
    const token = `step-${i}`;
    let params = step.params ?? {};
    let options;
    if (step.progress || step.cancel) params = { ...params, _meta: { ...params._meta, progressToken: token } };
    if (step.cancel) {
      const controller = new AbortController();
      cancels.set(token, controller);
      options = { signal: controller.signal };
    }
    try {
      const running = step.loose ? adapter.loose(step.method, params) : carryOut(step.method, params, adapter, options);
      if (step.during) await Promise.all([running, carryOut(step.during.method, step.during.params ?? {}, adapter)]);
      line.result = await running;
      for (let seen = 0; step.until && !JSON.stringify(line.result).includes(step.until.has); ) {
        const told = () => events.filter((event) => event.method === step.until.method).length;
        if (!(await come(() => told() > seen, step))) break;
        seen = told();
        line.result = await carryOut(step.method, params, adapter, options);
      }
    } catch (error) {
      line.error = describeError(error);
    }
    if (step.progress) {
      const mine = () => updates.filter((update) => update.progressToken === token);
      for (const end = Date.now() + PROGRESS_WITHIN; mine().length < step.progress && Date.now() < end; ) await sleep(10);
      line.progress = mine();
    }
    if (plan.answers) {
      const missing = () => step.await?.some(({ method, has }) => !events.some((event) => matches(event, method, has)));
      if (!line.error) await come(() => !missing(), step);
      line.events = events.splice(0);
    }
    await print(line);
  }
  await adapter.close();
  process.exit(0); // a keep-alive socket or a child's pipe may not hold the process
}

// come waits for what the events of a step bring, and returns whether it came in time.
async function come(condition, step) {
  for (const end = Date.now() + (step.within ?? EVENTS_WITHIN); !condition() && Date.now() < end; ) await sleep(10);
  return condition();
}

const matches = (event, method, has) => event.method === method && JSON.stringify(event.params ?? {}).includes(has ?? '');

async function carryOut(method, params, adapter, options) {
  const client = adapter.client;
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
  if (method === 'tools/call') return adapter.callTool(params, options);
  if (method in withParams) return client[withParams[method]](params, options);
  if (method === 'logging/setLevel') return client.setLoggingLevel(params.level);
  if (method === 'resources/subscribe') return adapter.subscribe(params.uri);
  if (method === 'resources/unsubscribe') return adapter.unsubscribe(params.uri);
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
