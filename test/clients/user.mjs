// The user, the model and the file system of a client with "answers" in its plan. test/internal/client/user.go is the equivalent for the Go SDK.

export const capabilities = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: { listChanged: true } };

// answersOf returns the answers by the method of the request. A user who declines answers every question with "decline".
export const answersOf = ({ declines }) => (declines ? { ...answers, 'elicitation/create': () => ({ action: 'decline' }) } : answers);

const answers = {
  'elicitation/create': ({ mode, requestedSchema }) => {
    if (mode === 'url') return { action: 'accept' };
    const known = { name: 'Ann', color: 'blue' };
    return { action: 'accept', content: Object.fromEntries(Object.entries(known).filter(([name]) => name in requestedSchema.properties)) };
  },
  // The model calls the offered tool first, and then answers with the text of the tool's result.
  'sampling/createMessage': ({ messages, tools }) => {
    const [last] = [messages.at(-1).content].flat();
    const message = (content, stopReason) => ({ role: 'assistant', model: 'm', content, stopReason });
    if (last.type === 'tool_result') return message({ type: 'text', text: last.content[0].text }, 'endTurn');
    if (tools?.length) return message({ type: 'tool_use', id: 'use-1', name: tools[0].name, input: { city: 'Oslo' } }, 'toolUse');
    return message({ type: 'text', text: 'Paris' }, 'endTurn');
  },
  'roots/list': () => ({ roots: [{ uri: 'file:///home/ann', name: 'home' }] })
};

// Notifications that are recorded as events.
export const notifications = [
  'notifications/message',
  'notifications/resources/updated',
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/elicitation/complete'
];
