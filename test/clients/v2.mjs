// The TypeScript SDK's second-generation client (both eras). See plan.mjs for input and output.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Provider, withAuthorization } from './oauth.mjs';
import { readPlan, run } from './plan.mjs';
import { answersOf, capabilities, notifications } from './user.mjs';

const MODERN = '2026-07-28';

const plan = await readPlan();
const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: MODERN } };
if (!(plan.mode in modes)) throw new Error(`mode must be legacy, auto or modern, not ${JSON.stringify(plan.mode)}`);
const client = new Client(
  { name: `v2-client-${plan.mode}`, version: '1.0.0' },
  { capabilities: plan.answers ? capabilities : {}, versionNegotiation: { mode: modes[plan.mode] } }
);
const provider = plan.target.oauth ? new Provider() : undefined;
let transport = open(plan.target);

// authorized runs an operation for which the gateway may require a token.
const authorized = (operation) => (provider ? withAuthorization(provider, operation, (params) => transport.finishAuth(params)) : operation());

function open(target) {
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url), { authProvider: provider, requestInit: { headers: target.headers } });
  const [command, ...args] = target.command;
  return new StdioClientTransport({ command, args, env: { ...process.env, ...target.env } });
}

const anything = { '~standard': { version: 1, vendor: 'plan', validate: (value) => ({ value }) } };

const modern = () => client.getProtocolEra() === 'modern';
const subscriptions = new Map(); // modern subscriptions by URI

await run(plan, {
  client,
  async connect() {
    let tried = false;
    await authorized(() => {
      if (tried) transport = open(plan.target); // a failed transport cannot be started again
      tried = true;
      return client.connect(transport);
    });
    if (plan.answers && modern()) await client.listen({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true });
  },
  describe: () => ({
    era: client.getProtocolEra(),
    protocolVersion: client.getNegotiatedProtocolVersion(),
    serverInfo: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions()
  }),
  onProgress: (handler) => client.setNotificationHandler('notifications/progress', handler),
  onEvent(handler) {
    for (const [method, answer] of Object.entries(answersOf(plan))) {
      client.setRequestHandler(method, ({ params }) => (handler(method, params), answer(params)));
    }
    for (const method of notifications) client.setNotificationHandler(method, ({ params }) => handler(method, params));
  },
  callTool: (params, options) => authorized(() => client.callTool(params, options)),
  untyped: (method, params) => client.request({ method, params }, anything),
  async subscribe(uri) {
    if (!modern()) return client.subscribeResource({ uri });
    subscriptions.set(uri, await client.listen({ resourceSubscriptions: [uri] }));
    return {};
  },
  async unsubscribe(uri) {
    if (!modern()) return client.unsubscribeResource({ uri });
    await subscriptions.get(uri).close();
    return {};
  },
  close: () => client.close()
});
