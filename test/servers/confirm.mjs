// A typical stdio server of the TypeScript SDK. It supports both eras, but server/discover lists the modern revision only. Its destructive tool
// drop_database asks for a confirmation if the client declares elicitation, as drop-database of mongodb-mcp-server does.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };

serveStdio(() => {
  const server = new McpServer({ name: 'confirm', version: '1.0.0' });
  server.registerTool('drop_database', { annotations: { destructiveHint: true } }, async () => {
    let asked = 'nobody was asked';
    if (server.server.getClientCapabilities()?.elicitation) {
      const answer = await server.server.elicitInput({ mode: 'form', message: 'Who drops the database?', requestedSchema });
      if (answer.action !== 'accept') return { content: [{ type: 'text', text: `kept: ${answer.action}` }] };
      asked = `${answer.content.name} confirmed`;
    }
    return { content: [{ type: 'text', text: `dropped: ${asked}` }] };
  });
  return server;
});
