// The TypeScript SDK's first-generation client (legacy era only). See plan.mjs for input and output.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitationCompleteNotificationSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
  ProgressNotificationSchema, ResultSchema, PromptListChangedNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema
} from '@modelcontextprotocol/sdk/types.js';
import { readPlan, run } from './plan.mjs';
import { answersOf, capabilities, notifications } from './user.mjs';

const plan = await readPlan();
const client = new Client({ name: 'v1-client', version: '1.0.0' }, { capabilities: plan.answers ? capabilities : {} });
const transport = open(plan.target);

function open(target) {
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers: target.headers } });
  if (target.sse) return new SSEClientTransport(new URL(target.sse));
  const [command, ...args] = target.command;
  return new StdioClientTransport({ command, args, env: { ...process.env, ...target.env } });
}

// The SDK always proposes its newest revision.
if (plan.revision) {
  const send = transport.send.bind(transport);
  transport.send = (message, options) =>
    send(message.method === 'initialize' ? { ...message, params: { ...message.params, protocolVersion: plan.revision } } : message, options);
}

const schemas = Object.fromEntries(
  [
    CreateMessageRequestSchema, ElicitationCompleteNotificationSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
    PromptListChangedNotificationSchema, ResourceListChangedNotificationSchema, ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema
  ].map((schema) => [schema.shape.method.value, schema])
);

await run(plan, {
  client,
  connect: () => client.connect(transport),
  describe: () => ({
    protocolVersion: transport.protocolVersion,
    serverInfo: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions()
  }),
  onProgress: (handler) => client.setNotificationHandler(ProgressNotificationSchema, handler),
  onEvent(handler) {
    for (const [method, answer] of Object.entries(answersOf(plan))) {
      client.setRequestHandler(schemas[method], ({ params }) => (handler(method, params), answer(params)));
    }
    for (const method of notifications) client.setNotificationHandler(schemas[method], ({ params }) => handler(method, params));
  },
  callTool: (params, options) => client.callTool(params, undefined, options),
  untyped: (method, params) => client.request({ method, params }, ResultSchema),
  subscribe: (uri) => client.subscribeResource({ uri }),
  unsubscribe: (uri) => client.unsubscribeResource({ uri }),
  async close() {
    if (plan.target.url) await transport.terminateSession();
    await client.close();
  }
});
