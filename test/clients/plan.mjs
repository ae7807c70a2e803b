// Runs a plan with one MCP client and prints the results.
//
// The plan is one JSON object on standard input:
//
//   {
//     "target": {"url": "http://…/mcp", "oauth": true}         streamable HTTP; with oauth (v2 client only) the user consents to everything
//               "headers": {"X-API-Key": "…"}                  with url: sent with each request
//             | {"sse": "http://…/sse"}                        HTTP+SSE (v1 client only)
//             | {"command": ["node", "…"], "env": {…}},        stdio
//     "mode":  "legacy" | "modern" | "auto",                   v2 client only
//     "revision": "2025-03-26",                                v1 client only: the proposed revision; "" or nothing for the newest
//     "answers": true,                                         the client declares every capability and answers requests, see user.mjs
//     "declines": true,                                        with answers: the user declines every question
//     "steps": [{"method": "tools/call", "params": {…}, "progress": 2}, …]
//   }
//
// A step names a JSON-RPC method. The client's own typed function for the method carries it out, so that the client's validation applies. A list
// follows every page; its result is {"items": […], "pages": n}. The other members of a step:
//
//   "progress": 2                             asks for progress, and waits a bounded time for this number of updates
//   "cancel": 1                               asks for progress, and cancels the request at the update with this number, from 1
//   "untyped": true                           sends any method with unchanged params and accepts any object as the result, with unknown members
//   "await": [{"method", "has"}, …]           waits until each of these events has come: its method, and a text in its params
//   "until": {"method", "has"}                repeats the request after each event with this method until the result contains the text
//   "within": 5000                            timeout of await and until in milliseconds
//   "during": {"method", "params"}            another step, without its own result, that is sent while this step runs
//
// An answering client also listens to changes of the lists, and may subscribe to resources in either era: "resources/subscribe" and
// "resources/unsubscribe".
//
// The output has one JSON line per step, in the order of the plan: {"method", "result"} or {"method", "error": {code, message, data}}. With
// "progress" the line has "progress": […], the params of the updates. A line of an answering client has "events": [{"method", "params"}, …], the
// requests and notifications since the previous step. The first line, with the pseudo-method "connect", describes the server. No line is
// truncated. The exit status is 0 if every step was carried out, with or without errors. A failed connection ends the run with exit status 1
// after the "connect" line.

import { setTimeout as sleep } from 'node:timers/promises';

const MAX_PAGES = 1000; // a server with endless cursors must not block the test
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

// run connects the client and carries out the steps. The adapter hides the differences between the two generations of the client:
// connect(), onProgress(handler), onEvent(handler), callTool(params, options), subscribe(uri), unsubscribe(uri), describe(), close(), and client, whose
// functions have the same names in both. untyped(method, params) sends a request of any method and accepts any result.
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
  // The client's own onprogress would drop updates that arrive just before the result.
  const updates = [];
  const cancels = new Map(); // by progress token
  adapter.onProgress((notification) => {
    updates.push(notification.params);
    cancels.get(notification.params.progressToken)?.();
  });
  for (const [i, step] of plan.steps.entries()) {
    const line = { method: step.method };
    const token = `step-${i}`;
    let params = step.params ?? {};
    let options;
    if (step.progress || step.cancel) params = { ...params, _meta: { ...params._meta, progressToken: token } };
    if (step.cancel) {
      const controller = new AbortController();
      let left = step.cancel;
      cancels.set(token, () => --left === 0 && controller.abort());
      options = { signal: controller.signal };
    }
    try {
      const running = step.untyped ? adapter.untyped(step.method, params) : carryOut(step.method, params, adapter, options);
      if (step.during) await Promise.all([running, carryOut(step.during.method, step.during.params ?? {}, adapter)]);
      line.result = await running;
      for (let seen = 0; step.until && !JSON.stringify(line.result).includes(step.until.has); ) {
        const count = () => events.filter((event) => event.method === step.until.method).length;
        if (!(await eventually(() => count() > seen, step))) break;
        seen = count();
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
      if (!line.error) await eventually(() => !missing(), step);
      line.events = events.splice(0);
    }
    await print(line);
  }
  await adapter.close();
  process.exit(0); // a keep-alive socket or a child's pipe must not keep the process running
}

// eventually waits until the events of a step make a condition true. It returns false after the timeout.
async function eventually(condition, step) {
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
  throw new Error(`the plan has a method that this client does not support: ${method}`);
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
