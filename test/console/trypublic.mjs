// Tries calls at the main address with Chromium: as the person who is logged in, in profiles too. Arguments: the URL of the main address, the
// API keys of two operators, and a folder for screenshots. Prints what is wrong, and then exits with status 1.
import { check, examine, fail, failures, launch, looks, watch } from './checks.mjs';

const [base, operator, second, folder] = process.argv.slice(2);
const inspect = (page, name) => examine(page, 'public try ' + name, folder);
const over = (page, state) => page.waitForSelector(`#state .state.${state}`);

async function enter(page, key) {
  await page.goto(base + '/me/login');
  await page.fill('#token', key);
  await Promise.all([page.waitForURL(base + '/me'), page.keyboard.press('Enter')]);
}

// open opens the page on which a tool is tried, by its page in the catalog.
async function open(page, name, profile = '') {
  await page.goto(`${base}/ui/catalog/item?kind=tool&name=${name}&profile=${profile}`);
  await Promise.all([page.waitForURL(/\/ui\/try\?/), page.click('text="Try it"')]);
}
const call = (page) => Promise.all([page.waitForURL(/\/ui\/try\/run/), page.click('.primary')]);
const outcome = (page) => page.textContent('#outcome');

const parts = {
  async address(page, look) {
    await open(page, 'tryable__opens');
    check((await page.locator('#as').count()) === 0, 'address', 'a person chooses as whom they call');
    await call(page);
    await page.waitForSelector('#question');
    const to = page.locator('#ask a.button');
    check(/^https:\/\/pay\.example\.com\/confirm/.test(await to.getAttribute('href')), 'address', 'leads to', await to.getAttribute('href'));
    check((await to.getAttribute('rel')).includes('noopener') && (await to.getAttribute('target')) === '_blank', 'address', 'the page that it opens may reach this one');
    check((await page.textContent('#ask strong')) === 'pay.example.com', 'address', 'its host is not shown');
    await inspect(page, `${look} address`);
    await page.click('text="I have opened it"');
    await over(page, 'ok');
    check((await outcome(page)).includes('{"action":"accept"}'), 'address', 'the answer is', await outcome(page));
    await open(page, 'tryable__opens');
    await call(page);
    await page.click('text="Decline"');
    await over(page, 'ok');
    check((await outcome(page)).includes('{"action":"decline"}'), 'address', 'the answer is', await outcome(page));
  },
  async noAddress(page, look) {
    await open(page, 'tryable__opens-nothing');
    await call(page);
    await page.waitForSelector('#question');
    check((await page.locator('#ask a').count()) === 0, 'no address', 'there is a link to it');
    check((await page.locator('#ask button.primary').count()) === 0, 'no address', 'a person can say that they have opened it');
    await inspect(page, `${look} no address`);
    await page.click('text="Cancel the call"');
    await over(page, 'error');
    check((await outcome(page)).includes('You cancelled the call'), 'no address', 'is', await outcome(page));
  },
  async sampling(page) {
    await open(page, 'tryable__samples');
    await call(page);
    await over(page, 'ok');
    check((await outcome(page)).includes('has no model'), 'sampling', 'the server learns', await outcome(page));
    check((await page.textContent('#log')).includes('sampling'), 'sampling', 'the person does not learn it');
  },
  async media(page, look) {
    await open(page, 'tryable__media');
    await call(page);
    await over(page, 'ok');
    const length = await page.$eval('audio', (a) => new Promise((done) => (a.readyState ? done(a.duration) : ((a.onloadedmetadata = () => done(a.duration)), (a.onerror = () => done(-1)), a.load()))));
    check(length > 0.9 && length < 1.1, 'media', 'the sound has', length, 'seconds');
    check((await page.$eval('.block img', (i) => i.decode().then(() => i.naturalWidth))) === 1, 'media', 'the image is not shown');
    await inspect(page, `${look} media`);
  },
  async composite(page, look) {
    await open(page, 'twice', 'agent');
    await page.fill('textarea[name="f.0"]', 'said');
    await inspect(page, `${look} composite form`);
    await call(page);
    await over(page, 'ok');
    check((await outcome(page)).includes('It is said. It is said.'), 'composite', 'the result is', await outcome(page));
    check((await page.textContent('.sub')).includes('agent'), 'composite', 'the profile is not shown');
  },
  async search(page, look) {
    await open(page, 'search_tools', 'agent');
    await page.fill('[name="f.0"]', 'media');
    await call(page);
    await over(page, 'ok');
    check((await outcome(page)).includes('tryable__media'), 'search', 'the result is', await outcome(page));
    await inspect(page, `${look} search`);
    await open(page, 'call_tool', 'agent');
    await page.fill('#args', '{"name": "tryable__echoes", "arguments": {"text": "inside"}}');
    await Promise.all([page.waitForURL(/\/ui\/try\/run/), page.click('text="Call with the JSON"')]);
    await over(page, 'ok');
    check((await outcome(page)).includes('It is inside.'), 'call_tool', 'the result is', await outcome(page));
  },
};

// twoPeople have tries of their own, and a login that ended sends nothing.
async function twoPeople(browser) {
  const [mine, theirs] = [await watch(await browser.newContext(), undefined, base), await watch(await browser.newContext(), undefined, base)];
  await enter(mine, operator);
  await enter(theirs, second);
  await open(mine, 'tryable__opens');
  await call(mine);
  await mine.waitForSelector('#question');
  await theirs.goto(mine.url());
  check(!(await theirs.textContent('body')).includes('pay.example.com'), 'two people', 'one sees the call of the other');
  const tab = await mine.context().newPage();
  await open(tab, 'tryable__echoes');
  await tab.fill('textarea[name="f.0"]', 'a long text');
  await mine.goto(base + '/me');
  await Promise.all([mine.waitForURL(/\/me\/login/), mine.click('text=Log out')]);
  await tab.click('.primary');
  await tab.waitForLoadState();
  check((await tab.textContent('body')).includes('nothing was sent'), 'a login that ended', 'is answered with', await tab.textContent('body'));
  await inspect(tab, 'login ended');
  await mine.goBack();
  check(mine.url().includes('/me/login'), 'after the logout', 'the back button leads to', mine.url());
  await mine.context().close();
  await theirs.context().close();
}

const browser = await launch();
try {
  for (const look of ['light', 'dark', 'phone']) {
    const context = await browser.newContext(looks[look]);
    const page = await watch(context, undefined, base, /40[14]|422/);
    await enter(page, operator);
    for (const [name, part] of Object.entries(parts)) await part(page, look).catch((e) => fail(`${look} ${name}`, e.message, page.url()));
    await context.close();
  }
  await twoPeople(browser).catch((e) => fail('two people', e.message));
} finally {
  await browser.close();
}
process.exit(failures() ? 1 : 0);
