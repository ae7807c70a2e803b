// Forms of calls: another choice shows its fields at once. Apps: the host of an app in its frame (SEP-1865).

for (const select of document.querySelectorAll("select[data-show]")) {
  select.addEventListener("change", () => select.parentElement.querySelector("button[name=show]").click());
}

const frame = document.querySelector("iframe.app");

// The answers of the host. Whatever else an app asks for is refused: a person makes the calls here.
const answers = {
  ping: () => ({}),
  "ui/initialize": ({ protocolVersion }) => ({
    protocolVersion: typeof protocolVersion === "string" ? protocolVersion : "2026-01-26",
    hostInfo: { name: "gateway-console", version: "1" },
    hostCapabilities: {},
    hostContext: {
      theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light",
      displayMode: "inline",
      availableDisplayModes: ["inline"],
      platform: "web",
    },
  }),
};

const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*"); // its origin is none

async function tellAboutCall() {
  if (!frame.dataset.app) return;
  const answer = await fetch(frame.dataset.app);
  if (!answer.ok) return;
  const { arguments: args, result } = await answer.json();
  send({ method: "ui/notifications/tool-input", params: { arguments: args } });
  send({ method: "ui/notifications/tool-result", params: result });
}

function receive(message) {
  if (typeof message !== "object" || message === null || typeof message.method !== "string") return;
  const params = typeof message.params === "object" && message.params !== null ? message.params : {};
  if (message.id !== undefined) {
    const answer = Object.hasOwn(answers, message.method) ? answers[message.method] : null;
    send(answer ? { id: message.id, result: answer(params) } : { id: message.id, error: { code: -32601, message: "the console does nothing for an app" } });
  } else if (message.method === "ui/notifications/initialized") {
    tellAboutCall();
  } else if (message.method === "ui/notifications/size-changed" && Number.isFinite(params.height)) {
    frame.height = Math.min(Math.max(params.height, 80), 1200);
  }
}

if (frame) {
  addEventListener("message", (event) => {
    if (event.source === frame.contentWindow) receive(event.data);
  });
}
