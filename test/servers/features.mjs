// An MCP server of the TypeScript SDK's second generation for both eras. It has one tool, prompt or resource for every feature of the protocol.
//
//   node features.mjs PORT      streamable HTTP on this loopback port, at any path; legacy clients get sessions, modern clients do not
//   node features.mjs           standard input and output
//
// It is the same server as test/internal/featuresfixture. Dialogs are defined once: a legacy client receives requests during its call, a modern
// client receives input_required. The SDK's own compatibility code for legacy clients is off. All clients share the state, which ends with the
// process.

import http from 'node:http';
import { Readable } from 'node:stream';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  createMcpHandler, inputRequired, isLegacyRequest, Server, UrlElicitationRequiredError, WebStandardStreamableHTTPServerTransport
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const WAITS_FOR = 30_000; // ms; duration of the tool wait if it is not cancelled
const SIGN_IN_URL = 'https://example.com/sign-in';

const capabilities = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
  logging: {}
};

// The state of all clients.
const state = { touched: 0, grown: new Set(), cancelled: new Map(), signedIn: new Set() };
const servers = new Set(); // of legacy sessions, and of connections on stdio
let publish; // publishes {kind, uri?} to modern clients over HTTP, which have no session

const text = (text) => ({ content: [{ type: 'text', text }] });
const oneString = (name) => ({ type: 'object', properties: { [name]: { type: 'string' } }, required: [name] });
const askName = { method: 'elicitation/create', params: { mode: 'form', message: 'What is your name?', requestedSchema: oneString('name') } };
const askModel = (prompt) => ({
  method: 'sampling/createMessage',
  params: { maxTokens: 100, messages: [{ role: 'user', content: { type: 'text', text: prompt } }] }
});
const accepted = (answer, name) => (answer?.action === 'accept' ? answer.content[name] : `(not accepted: ${JSON.stringify(answer)})`);
const blocks = (answer) => [answer?.content ?? []].flat();
const sampled = (answer) => blocks(answer)[0]?.text ?? `(no message: ${JSON.stringify(answer)})`;

// A dialog receives the state that it returned with its last questions ("" in the first round) and the answers. It returns more questions and a
// new state, or no questions and the tool's text.
const one = (question, say) => (state, answers) => (state === '' ? [{ question }, 'asked'] : [null, say(answers.question)]);

const dialogs = {
  ask_form: one(askName, (answer) => `Hello, ${accepted(answer, 'name')}!`),
  ask_url: one({ method: 'elicitation/create', params: { mode: 'url', message: 'Sign in.', url: SIGN_IN_URL } }, (answer) => `The page was: ${answer?.action}`),
  sample: one(askModel('What is the capital of France?'), (answer) => `The model says: ${sampled(answer)}`),
  roots: one({ method: 'roots/list' }, (answer) => `Roots: ${(answer?.roots ?? []).map((root) => root.uri).join(' ')}`),
  sample_tools(state, answers) {
    const params = {
      maxTokens: 100,
      messages: [{ role: 'user', content: { type: 'text', text: 'How warm is it in Oslo?' } }],
      tools: [{ name: 'weather', inputSchema: oneString('city') }]
    };
    if (state === '') return [{ model: { method: 'sampling/createMessage', params: { ...params, toolChoice: { mode: 'required' } } } }, 'asked'];
    const [block] = blocks(answers.model);
    if (block?.type !== 'tool_use') return [null, `${state}: The model says: ${sampled(answers.model)}`];
    const result = { type: 'tool_result', toolUseId: block.id, content: [{ type: 'text', text: `17 degrees in ${block.input.city}` }] };
    params.messages.push({ role: 'assistant', content: [block] }, { role: 'user', content: [result] });
    return [{ model: { method: 'sampling/createMessage', params } }, 'answered'];
  },
  rounds(state, answers) {
    if (state === '') return [{ name: askName }, 'named '];
    if (state === 'named ') {
      const askColor = { method: 'elicitation/create', params: { mode: 'form', message: 'Which color?', requestedSchema: oneString('color') } };
      return [{ color: askColor, model: askModel('What is the capital of France?') }, state + accepted(answers.name, 'name')];
    }
    return [null, `${state}, ${accepted(answers.color, 'color')}, ${sampled(answers.model)}`];
  }
};

// converse carries out a dialog with requests to the client. The requests of one round are concurrent. After a URL question the client is notified
// that the user has completed the page.
async function converse(server, ctx, dialog, key) {
  let [questions, state] = dialog('', {});
  while (questions) {
    const answers = {};
    await Promise.all(
      Object.entries(questions).map(async ([name, { method, params }]) => {
        const page = params?.mode === 'url' && { elicitationId: `page-${key}` };
        answers[name] = await ctx.mcpReq.send({ method, params: { ...params, ...page } });
        if (page) await ctx.mcpReq.notify({ method: 'notifications/elicitation/complete', params: page });
      })
    );
    [questions, state] = dialog(state, answers);
  }
  return text(state);
}

function cancellation(key) {
  if (!state.cancelled.has(key)) state.cancelled.set(key, Promise.withResolvers());
  return state.cancelled.get(key);
}

async function progress(ctx, step) {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: step, total: 3, message: `step ${step}` } });
}

async function changed(kind) {
  publish?.({ kind: `${kind}_list_changed` });
  for (const server of servers) await server.notification({ method: `notifications/${kind}/list_changed` });
}

async function listsChanged() {
  for (const kind of ['tools', 'prompts', 'resources']) await changed(kind);
}

// Tools without questions.
const tools = {
  echo: (_server, _ctx, { text: said }) => text(`echo: ${said}`),
  async count(_server, ctx) {
    for (const step of [1, 2, 3]) await progress(ctx, step);
    return text('counted');
  },
  async log(_server, ctx) {
    await ctx.mcpReq.log('debug', 'quiet');
    await ctx.mcpReq.log('info', 'loud');
    return text('logged');
  },
  // wait reports progress once it has begun, and then waits for its cancellation. cancelled reports whether the call with this key was cancelled.
  async wait(_server, ctx, { key }) {
    await progress(ctx, 1);
    try {
      await sleep(WAITS_FOR, undefined, { signal: ctx.mcpReq.signal });
    } catch {
      cancellation(key).resolve();
    }
    return text('nobody cancelled');
  },
  cancelled: async (_server, _ctx, { key, within }) =>
    text(await Promise.race([cancellation(key).promise.then(() => 'cancelled'), sleep(within, 'not cancelled', { ref: false })])),
  async touch() {
    state.touched++;
    publish?.({ kind: 'resource_updated', uri: 'test://watched' });
    // On stdio the SDK knows the subscriptions of a modern client.
    for (const server of servers) if (server.era === 'modern' || server.watched.has('test://watched')) await server.sendResourceUpdated({ uri: 'test://watched' });
    return text('touched');
  },
  async grow(_server, _ctx, { name }) {
    state.grown.add(name);
    await listsChanged();
    return text('grown');
  },
  async shrink(_server, _ctx, { name }) {
    state.grown.delete(name);
    await listsChanged();
    return text('shrunk');
  }
};

// sign_in fails until its user has visited a page. finish_sign_in stands for the user's browser: it notifies the client, outside of any call, that
// the user has completed the page. Later revisions have neither.
const legacyTools = {
  sign_in(_server, _ctx, { key }) {
    if (state.signedIn.has(key)) return text('signed in');
    state.signedIn.add(key);
    throw new UrlElicitationRequiredError([{ mode: 'url', message: 'Sign in.', url: SIGN_IN_URL, elicitationId: `sign-in-${key}` }]);
  },
  async finish_sign_in(server, _ctx, { key }) {
    await server.notification({ method: 'notifications/elicitation/complete', params: { elicitationId: `sign-in-${key}` } });
    return text('finished');
  }
};

function createServer({ era }) {
  const server = new Server({ name: 'features-ts', version: '1.0.0' }, { capabilities, inputRequired: { legacyShim: false } });
  const plain = era === 'legacy' ? { ...tools, ...legacyTools } : tools;
  server.era = era;
  server.watched = new Set(); // of a legacy client
  server.setRequestHandler('tools/list', () => ({
    tools: [...Object.keys(plain), ...Object.keys(dialogs), ...state.grown].map((name) => ({ name, inputSchema: { type: 'object' } }))
  }));
  server.setRequestHandler('tools/call', ({ params: { name, arguments: input = {} } }, ctx) => {
    if (Object.hasOwn(plain, name)) return plain[name](server, ctx, input);
    if (state.grown.has(name)) return text(`I am ${name}`);
    if (!Object.hasOwn(dialogs, name)) throw new Error(`no tool ${name}`);
    if (era === 'legacy') return converse(server, ctx, dialogs[name], input.key);
    const [questions, next] = dialogs[name](ctx.mcpReq.requestState() ?? '', ctx.mcpReq.inputResponses ?? {});
    return questions ? inputRequired({ inputRequests: questions, requestState: next }) : text(next);
  });
  server.setRequestHandler('resources/list', () => ({
    resources: [
      { name: 'watched', uri: 'test://watched', mimeType: 'text/plain' },
      { name: 'embedded', uri: 'test://embedded', mimeType: 'text/plain' },
      ...[...state.grown].map((name) => ({ name, uri: `test://grown/${name}` }))
    ]
  }));
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: [{ name: 'thing', uriTemplate: 'test://thing/{id}', mimeType: 'text/plain' }]
  }));
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const [, kind, name] = uri.match(/^test:\/\/(\w+)(?:\/(.+))?$/) ?? [];
    const texts = { watched: `touched ${state.touched} times`, embedded: 'embedded text', grown: `I am ${name}`, thing: `thing ${name}` };
    return { contents: [{ uri, mimeType: 'text/plain', text: texts[kind] }] };
  });
  server.setRequestHandler('prompts/list', () => ({
    prompts: [{ name: 'with_resource' }, { name: 'greet', arguments: [{ name: 'name' }] }, ...[...state.grown].map((name) => ({ name }))]
  }));
  server.setRequestHandler('prompts/get', ({ params: { name } }) => {
    const embedded = { type: 'resource', resource: { uri: 'test://embedded', mimeType: 'text/plain', text: 'embedded text' } };
    return { messages: [{ role: 'user', content: name === 'with_resource' ? embedded : { type: 'text', text: `I am ${name}` } }] };
  });
  server.setRequestHandler('completion/complete', ({ params: { ref, argument } }) => {
    const known = ref.type === 'ref/resource' ? ['17', '18', '42'] : ['Ann', 'Anton', 'Bob'];
    const values = known.filter((value) => value.startsWith(argument.value));
    return { completion: { values, total: values.length } };
  });
  if (era === 'legacy') {
    server.setRequestHandler('resources/subscribe', ({ params: { uri } }) => (server.watched.add(uri), {}));
    server.setRequestHandler('resources/unsubscribe', ({ params: { uri } }) => (server.watched.delete(uri), {}));
  }
  return server;
}

function serveHTTP(port) {
  const modern = createMcpHandler(createServer, { legacy: 'reject' });
  publish = (event) => modern.bus.publish(event);
  const sessions = new Map(); // transports by id
  const legacy = async (request) => {
    const known = sessions.get(request.headers.get('mcp-session-id'));
    if (known) return known.handleRequest(request);
    if (request.headers.has('mcp-session-id')) return new Response('no such session', { status: 404 });
    const server = createServer({ era: 'legacy' });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => (sessions.set(id, transport), servers.add(server)),
      onsessionclosed: (id) => (sessions.delete(id), servers.delete(server))
    });
    await server.connect(transport);
    return transport.handleRequest(request);
  };
  http
    .createServer(async (req, res) => {
      const gone = new AbortController();
      res.on('close', () => gone.abort());
      const body = ['GET', 'HEAD'].includes(req.method) ? undefined : Readable.toWeb(req);
      const request = new Request(`http://${req.headers.host}${req.url}`, {
        method: req.method, headers: Object.entries(req.headers).flatMap(([k, v]) => [v].flat().map((v) => [k, v])), body, duplex: 'half', signal: gone.signal
      });
      const response = await ((await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request));
      res.writeHead(response.status, Object.fromEntries(response.headers));
      res.flushHeaders();
      if (!response.body) return res.end();
      const reader = response.body.getReader();
      res.on('close', () => reader.cancel().catch(() => {}));
      for (let part; !(part = await reader.read()).done; ) res.write(part.value);
      res.end();
    })
    .listen(port, '127.0.0.1');
}

const [port] = process.argv.slice(2);
if (port) serveHTTP(Number(port));
else
  serveStdio((ctx) => {
    const server = createServer(ctx);
    servers.add(server);
    return server;
  });
