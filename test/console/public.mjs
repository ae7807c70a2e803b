// Looks at the pages at the main address with Chromium: the login, the console of an operator, and /me. Arguments: the URL of the main
// address, the API keys of an operator and of somebody else, and a folder for screenshots. Prints what is wrong, and then exits with status 1.
import { check, elsewhere, examine, fail, failures, launch, looks, watch } from './checks.mjs';

const [base, operator, other, folder] = process.argv.slice(2);
const inspect = (page, name) => examine(page, 'public ' + name, folder);

// enter logs in with the keyboard alone, once the page has put the focus into its field.
async function enter(page, key) {
  await page.waitForFunction(() => document.activeElement?.id === 'token');
  await page.keyboard.type(key);
  await Promise.all([page.waitForLoadState(), page.waitForURL((u) => !u.pathname.endsWith('/login')), page.keyboard.press('Enter')]);
}

async function seesConsole(browser, look) {
  const page = await watch(browser, looks[look], base);
  await page.goto(base + '/ui/policy');
  check(page.url().endsWith('/me/login?next=%2Fui%2Fpolicy'), look, 'is at', page.url());
  await inspect(page, look + ' login');
  await page.fill('#token', 'wrong');
  await page.keyboard.press('Enter');
  await page.waitForSelector('[role=alert]');
  await inspect(page, look + ' login, wrong');
  check((await page.inputValue('#token')) === '', look, 'the wrong key is sent back');
  await page.focus('#token');
  await enter(page, operator);
  check(page.url() === base + '/ui/policy', look, 'the login leads to', page.url());
  const [cookie] = (await page.context().cookies()).filter((c) => c.name.includes('login'));
  check(cookie?.httpOnly && cookie.sameSite === 'Strict' && !cookie.value.includes(operator), look, 'the cookie is', JSON.stringify(cookie));
  await inspect(page, look + ' policy');
  for (const [name, fields] of Object.entries({
    answer: { name: 'hostile__plain', as: 'eve,group=dev', args: '{"x": "<b>"}' },
    token: { name: 'hostile__plain', as: '', token: other },
    error: { name: 'hostile__plian', as: 'eve', token: '' },
  })) {
    for (const [field, value] of Object.entries(fields)) await page.fill('#' + field, value);
    await page.focus('#name');
    await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
    await inspect(page, `${look} policy ${name}`);
    check(!(await page.content()).includes(other), look, 'the page has the key');
  }
  check((await page.textContent('#name-error')).includes('hostile__plain'), look, 'nothing similar is named');
  await page.goto(base + '/ui');
  await page.waitForSelector('#live[data-state=live]');
  await inspect(page, look + ' overview');
  await page.goto(base + '/me');
  await Promise.all([page.waitForURL(/login/), page.click('text=Log out')]);
  await page.goto(base + '/ui');
  check(page.url().includes('/me/login'), look, 'the console is open after the logout');
  await page.close();
}

async function seesThemselves(browser, look) {
  const page = await watch(browser, looks[look], base);
  await page.goto(base + '/me');
  await enter(page, other);
  await inspect(page, look + ' me');
  const text = await page.textContent('main');
  for (const want of ['somebody', 'readers', '5/m', 'tickets', 'Grant access']) check(text.includes(want), look, '/me lacks', want);
  check(!(await page.content()).includes('href="/ui'), look, '/me links to the console');
  await page.goto(base + '/ui');
  check((await page.textContent('main')).includes('There is no such page'), look, 'the console is open for everybody');
  await inspect(page, look + ' no console');
  await page.goto(base + '/me');
  for (let i = 0; i < 30 && !(await page.evaluate(() => document.activeElement.matches('tbody a'))); i++) await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.activeElement.matches('tbody a')), look, 'the keyboard does not reach the grant');
  await page.close();
}

// isSafe logs in, and lets a page of another origin try to reach the console.
async function isSafe(browser) {
  const context = await browser.newContext();
  const page = await watch(context, {}, base);
  await page.goto(base + '/ui');
  await enter(page, operator);
  await elsewhere(context, base, '/me/theme');
  await context.close();
}

const browser = await launch();
try {
  await isSafe(browser).catch((e) => fail('another origin', e.message));
  for (const look of Object.keys(looks)) {
    await seesConsole(browser, look).catch((e) => fail(look, e.message));
    await seesThemselves(browser, look).catch((e) => fail(look, e.message));
  }
} finally {
  await browser.close();
}
process.exit(failures() ? 1 : 0);
