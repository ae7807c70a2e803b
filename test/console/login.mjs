// Logs in at an OpenID provider with Chromium. Arguments: the URL of the main address, that of the issuer, and a folder for screenshots.
// Prints what is wrong, and then exits with status 1.
import { check, examine, fail, failures, launch, looks, watch } from './checks.mjs';

const [base, issuer, folder] = process.argv.slice(2);
const inspect = (page, name) => examine(page, 'issuer ' + name, folder);
const link = 'a.primary';

// logsIn logs in with the keyboard alone, looks, and logs out.
async function logsIn(browser, look) {
  const page = await watch(browser, looks[look], base, issuer);
  await page.goto(base + '/ui/calls?q=x');
  await inspect(page, look + ' login');
  check(await page.evaluate((a) => document.activeElement.matches(a), link), look, 'the issuer has no focus');
  const [away] = await Promise.all([page.waitForRequest((r) => r.url().startsWith(issuer + '/auth')), page.waitForURL(base + '/ui/calls?q=x'), page.keyboard.press('Enter')]);
  const asked = new URL(away.url()).searchParams;
  for (const [name, want] of Object.entries({ client_id: 'gateway', code_challenge_method: 'S256', resource: base + '/mcp', scope: 'openid mcp', redirect_uri: base + '/oauth/login' })) {
    check(asked.get(name) === want, look, name, 'is', asked.get(name));
  }
  check(asked.get('nonce') && asked.get('state') && asked.get('code_challenge'), look, 'the request lacks a nonce, a state or a challenge');
  const [cookie] = (await page.context().cookies(base)).filter((c) => c.name.startsWith('mcpgateway_login'));
  check(cookie?.httpOnly && cookie.sameSite === 'Strict', look, 'the cookie is', JSON.stringify(cookie));
  await page.goto(base + '/me');
  const text = await page.textContent('main');
  for (const want of ['ann', 'staff', issuer]) check(text.includes(want), look, '/me lacks', want);
  check(!(await page.content()).includes('eyJ'), look, 'the page has the token');
  await Promise.all([page.waitForURL(/\/me\/login/), page.click('text=Log out')]);
  await page.goBack();
  check(page.url().includes('/me/login') && !(await page.content()).includes('staff'), look, 'the back button shows what was seen before the logout, at', page.url());
  await page.context().close();
}

// response begins a login with the cookies of a page and returns the authorization response of the issuer, which the page does not get.
async function response(page) {
  await page.goto(base + '/me/login');
  let at = new URL(await page.getAttribute(link, 'href'), base).href;
  for (let i = 0; i < 20 && !at.startsWith(base + '/oauth/login'); i++) {
    const answer = await page.context().request.get(at, { maxRedirects: 0 });
    at = new URL(answer.headers().location, at).href;
  }
  return at;
}

// refuses looks at authorization responses that are not those of this browser.
async function refuses(browser) {
  const expected = [/status of 40[03]/];
  const mine = await watch(await browser.newContext(), {}, base, issuer, ...expected);
  const other = await watch(await browser.newContext(), {}, base, issuer, ...expected);
  const url = await response(mine);
  await other.goto(url);
  check((await other.textContent('[role=alert]')).includes('belongs to another browser'), 'another browser', 'is not refused:', await other.textContent('body'));
  await inspect(other, 'refused');
  const denied = new URL(await response(other));
  denied.searchParams.delete('code');
  denied.searchParams.set('error', 'access_denied');
  await other.goto(denied.href);
  check((await other.textContent('[role=alert]')).includes('access_denied'), 'denied', 'is', await other.textContent('body'));
  check((await other.context().cookies(base)).every((c) => !c.name.startsWith('mcpgateway_login')), 'denied', 'there is a login');
  const mixed = new URL(await response(other));
  mixed.searchParams.set('iss', 'http://127.0.0.1:1');
  await other.goto(mixed.href);
  check((await other.textContent('[role=alert]')).includes('another authorization server'), 'mixed up', 'is', await other.textContent('body'));
  await Promise.all([mine.waitForURL(base + '/me'), mine.goto(url).catch(() => {})]); // nobody has used it up
  check((await mine.textContent('main')).includes('ann'), 'another browser', 'has used up the response');
  await mine.goto(url);
  check((await mine.textContent('body')).includes('used already'), 'a second time', 'is', await mine.textContent('body'));
  await mine.context().close();
  await other.context().close();
}

const browser = await launch();
try {
  for (const look of Object.keys(looks)) await logsIn(browser, look).catch((e) => fail(look, e.message));
  await refuses(browser).catch((e) => fail('refuses', e.message));
} finally {
  await browser.close();
}
process.exit(failures() ? 1 : 0);
