// The TypeScript SDK's second-generation client (both eras). See plan.mjs for input and output.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { readPlan, run } from './plan.mjs';

const MODERN = '2026-07-28';

const plan = await readPlan();
const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: MODERN } };
if (!(plan.mode in modes)) throw new Error(`mode must be legacy, auto or modern, not ${JSON.stringify(plan.mode)}`);
const client = new Client(
  { name: `v2-client-${plan.mode}`, version: '1.0.0' },
  { capabilities: {}, versionNegotiation: { mode: modes[plan.mode] } }
);
const transport = open(plan.target);

function open(target) {
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url));
  const [command, ...args] = target.command;
  return new StdioClientTransport({ command, args, env: { ...process.env, ...target.env } });
}

await run(plan, {
  client,
  connect: () => client.connect(transport),
  describe: () => ({
    era: client.getProtocolEra(),
    protocolVersion: client.getNegotiatedProtocolVersion(),
    serverInfo: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions()
  }),
  onProgress: (handler) => client.setNotificationHandler('notifications/progress', handler),
  close: () => client.close()
});
