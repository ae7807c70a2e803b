// A server of revision 2025-11-25 whose tools do what a person may meet when they try them: `node tryable.mjs`.
import readline from 'node:readline';

// A second of silence.
const wav = Buffer.alloc(44 + 8000, 128);
wav.write('RIFF', 0), wav.writeUInt32LE(36 + 8000, 4), wav.write('WAVEfmt ', 8), wav.writeUInt32LE(16, 16), wav.writeUInt16LE(1, 20), wav.writeUInt16LE(1, 22);
wav.writeUInt32LE(8000, 24), wav.writeUInt32LE(8000, 28), wav.writeUInt16LE(1, 32), wav.writeUInt16LE(8, 34), wav.write('data', 36), wav.writeUInt32LE(8000, 40);
const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const schema = { type: 'object', properties: { text: { type: 'string' } } };
const tools = ['opens', 'opens-nothing', 'samples', 'media', 'echoes'].map((name) => ({ name, description: `The tool ${name}.`, inputSchema: schema }));
const out = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\n');
const text = (text) => ({ content: [{ type: 'text', text }] });
const waiting = new Map(); // the calls that ended with an ask, by the id of the ask

function call(id, { name, arguments: args }) {
  const ask = (method, params) => (waiting.set('ask-' + id, id), out({ id: 'ask-' + id, method, params }));
  switch (name) {
    case 'opens': return ask('elicitation/create', { mode: 'url', elicitationId: 'e-' + id, message: 'Confirm the payment.', url: 'https://pay.example.com/confirm?of=' + id });
    case 'opens-nothing': return ask('elicitation/create', { mode: 'url', elicitationId: 'e-' + id, message: 'Open this.', url: 'javascript:document.title="owned"' });
    case 'samples': return ask('sampling/createMessage', { messages: [{ role: 'user', content: { type: 'text', text: 'Write.' } }], maxTokens: 5 });
    case 'media': return out({ id, result: { content: [{ type: 'audio', data: wav.toString('base64'), mimeType: 'audio/wav' }, { type: 'image', data: png, mimeType: 'image/png' }, { type: 'audio', data: 'not base64!', mimeType: 'audio/wav' }] } });
    default: return out({ id, result: text('It is ' + (args?.text ?? 'nothing') + '.') });
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const m = JSON.parse(line);
  const of = waiting.get(m.id);
  if (of !== undefined && m.method === undefined) {
    waiting.delete(m.id);
    return out({ id: of, result: text('The answer is ' + JSON.stringify(m.result ?? m.error) + '.') });
  }
  if (m.id === undefined) return;
  switch (m.method) {
    case 'initialize': return out({ id: m.id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'tryable', version: '1' } } });
    case 'tools/list': return out({ id: m.id, result: { tools } });
    case 'tools/call': return call(m.id, m.params);
    case 'ping': return out({ id: m.id, result: {} });
    default: return out({ id: m.id, error: { code: -32601, message: 'no such method' } });
  }
});
