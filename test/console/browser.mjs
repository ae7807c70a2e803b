// Looks at the console with Chromium. Arguments: the admin URL and the MCP URL of a gateway without a token, the admin URL of one with a
// token, the token, and a folder for screenshots. Prints what is wrong, and then exits with status 1.
import { tries } from './tries.mjs';
import { check, elsewhere, examine, fail, failures, headerFits, launch, looks, watch } from './checks.mjs';

const [admin, mcp, locked, token, folder] = process.argv.slice(2);

const pages = [
  '/ui',
  '/ui/catalog',
  '/ui/catalog?as=ann',
  '/ui/catalog?kind=resource',
  '/ui/catalog/item?kind=tool&name=hostile__plain&as=ann',
  '/ui/catalog/item?kind=prompt&name=hostile__p',
  '/ui/calls',
  '/ui/sessions',
  '/ui/configuration?all=1',
  '/ui/nothing',
];
// post sends a message to the MCP endpoint.
async function post(message, session) {
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  if (session) headers['mcp-session-id'] = session;
  const answer = await fetch(mcp, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', ...message }) });
  await answer.text();
  return answer;
}

async function connect() {
  const client = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: '<script>document.title="owned"</script>', version: '1' } };
  const session = (await post({ id: 1, method: 'initialize', params: client })).headers.get('mcp-session-id');
  await post({ method: 'notifications/initialized' }, session);
  return (name, args) => post({ id: 2, method: 'tools/call', params: { name, arguments: args } }, session);
}

// modern sends a request of a modern client that can be asked, and returns its answer.
const modern = (method, params, headers) =>
  fetch(mcp, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...headers },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method,
      params: {
        ...params,
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: '<script>document.title="owned"</script>', version: '2' },
          'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
        },
      },
    }),
  });

// openAll opens what the page of sessions shows, and returns a function that ends the stream.
async function openAll() {
  const round = await (await modern('tools/call', { name: 'hostile__asks', arguments: {} }, { 'mcp-name': 'hostile__asks' })).text();
  check(round.includes('input_required'), 'sessions', 'the call is not parked:', round);
  const stream = await modern('subscriptions/listen', { notifications: { toolsListChanged: true } });
  check(stream.ok, 'sessions', 'the stream is refused:', stream.status);
  return () => stream.body.cancel();
}

async function sessions(browser) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui/sessions');
  for (const [region, text] of [['parked', 'hostile__asks'], ['parked', 'elicitation/create'], ['sessions', '2025-06-18'], ['listens', 'toolsListChanged']]) {
    check((await page.textContent('#' + region)).includes(text), 'sessions', region, 'lacks', text);
  }
  await page.waitForSelector('#live[data-state=live]');
  const before = await page.locator('#sessions tbody tr').count();
  await connect();
  await page.waitForFunction((n) => document.querySelectorAll('#sessions tbody tr').length > n, before);
  await page.close();
}

const watched = (browser, look, ...expected) => watch(browser, look, admin, locked, ...expected);
const inspect = (page, name) => examine(page, name, folder);

async function looksRight(browser) {
  for (const [look, options] of Object.entries(looks)) {
    const page = await watched(browser, options);
    for (const path of pages) {
      await page.goto(admin + path);
      await inspect(page, `${look} ${path}`);
    }
    await page.close();
  }
}

async function isLive(browser, call) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui/calls');
  await page.waitForSelector('#live[data-state=live]');
  await call('hostile__fails', {});
  await page.waitForSelector('#calls td:has-text("error")');
  await page.click('#calls summary');
  await call('everything__echo', { message: 'secret-argument' });
  await page.waitForSelector('#calls :text("everything__echo")');
  check((await page.locator('#calls details[open]').count()) === 1, 'calls', 'an open row closes when the region changes');
  check(!(await page.content()).includes('secret-argument'), 'calls', 'an argument is shown');
  await page.click('#live');
  await page.waitForSelector('#live[data-state=paused]');
  await page.close();
}

async function keyboard(browser) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui/catalog');
  await page.keyboard.press('Tab');
  check((await page.evaluate(() => document.activeElement.className)) === 'skip', 'keyboard', 'the first stop is not the link to the content');
  await page.keyboard.press('Enter');
  check((await page.evaluate(() => document.activeElement.id)) === 'main', 'keyboard', 'the link does not lead to the content');
  await page.keyboard.press('/');
  await page.keyboard.type('echo');
  await Promise.all([page.waitForURL(/q=echo/), page.keyboard.press('Enter')]);
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.matches('tbody a'))); i++) {
    await page.keyboard.press('Tab');
    const seen = await page.evaluate(() => document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none');
    check(seen, 'keyboard', 'no outline at stop', i);
  }
  await Promise.all([page.waitForURL(/catalog\/item/), page.keyboard.press('Enter')]);
  await page.locator('#raw summary').focus();
  await page.keyboard.press('Enter');
  await page.waitForSelector('pre.raw:visible');
  await page.close();
}

async function themes(browser) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui');
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await Promise.all([page.waitForResponse(/\/ui\/theme/), page.click('button[value=dark]')]);
  const dark = await back();
  check(light !== dark, 'themes', 'the switch changes nothing');
  await page.reload();
  check((await back()) === dark, 'themes', 'the choice is forgotten');
  await page.close();
}

async function withoutScript(browser) {
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(admin + '/ui');
  check((await page.textContent('#upstreams')).includes('hostile'), 'without script', 'the page is empty');
  await page.click('button[value=dark]');
  await page.waitForSelector('html[data-theme=dark]');
  await context.close();
}

async function login(browser) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(locked + '/ui/catalog?q=echo');
  await inspect(page, 'login');
  await page.fill('#token', 'wrong');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[role=alert]');
  await inspect(page, 'login, wrong');
  await page.fill('#token', token);
  await Promise.all([page.waitForURL(/catalog\?q=echo/), page.keyboard.press('Enter')]);
  await headerFits(page, 'login');
  check((await context.cookies()).every((c) => c.httpOnly && c.sameSite === 'Strict'), 'login', 'cookies', JSON.stringify(await context.cookies()));
  await elsewhere(context, locked);
  await Promise.all([page.waitForURL(/login/), page.click('text=Log out')]);
  await page.goto(locked + '/ui');
  check(page.url().includes('/login'), 'login', 'the console is open after the logout');
  await context.close();
}

const browser = await launch();
try {
  const call = await connect();
  await call('hostile__plain', { path: 'x' });
  const close = await openAll();
  for (const [name, part] of Object.entries({ isLive: () => isLive(browser, call), sessions: () => sessions(browser), looksRight: () => looksRight(browser), keyboard: () => keyboard(browser), themes: () => themes(browser), withoutScript: () => withoutScript(browser), tries: () => tries({ browser, admin, looks, watched, inspect, check }), login: () => login(browser) })) {
    await part().catch((e) => fail(name, e.message));
  }
  await close();
  const context = await browser.newContext();
  await elsewhere(context, admin);
  await context.close();
} finally {
  await browser.close();
}
process.exit(failures() ? 1 : 0);
