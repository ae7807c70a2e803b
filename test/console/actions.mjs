// Acts in the console with Chromium. Arguments: the admin URL of a gateway with admin.actions, that of one without, and a folder for
// screenshots. Prints what is wrong, and then exits with status 1.
import http from 'node:http';
import { check, examine, fail, failures, launch, looks, watch } from './checks.mjs';

const [admin, shows, folder] = process.argv.slice(2);
const watched = (browser, look) => watch(browser, look, admin, shows);
const inspect = (page, name) => examine(page, name, folder);
const card = (page, tool) => page.locator('section.held').filter({ has: page.locator(`h2 code:text-is("${tool}")`) });

async function looksRight(browser) {
  for (const [look, options] of Object.entries(looks)) {
    const page = await watched(browser, options);
    for (const path of ['/ui/approve', '/ui/approve?q=plain', '/ui/grants']) {
      await page.goto(admin + path);
      await inspect(page, `${look} actions ${path}`);
      const outside = await page.evaluate(() => [...document.querySelectorAll('nav a')].filter((a) => a.getBoundingClientRect().right > innerWidth).map((a) => a.textContent));
      check(outside.length === 0, look, 'the navigation is cut:', outside);
    }
    await page.close();
  }
}

async function differs(browser) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui/approve');
  const plain = card(page, 'plain');
  for (const [part, text] of [['del', 'Reads'], ['ins', '<script>'], ['ins', '⟨U+202E⟩'], ['tbody', 'readOnlyHint']]) {
    check((await plain.locator(part).allTextContents()).join('\n').includes(text), 'approve', part, 'lacks', text);
  }
  check((await card(page, 'asks').locator('.tag').first().textContent()) === 'new', 'approve', 'a new tool is not called new');
  check((await card(page, 'fails').count()) === 0, 'approve', 'a tool that has not changed is there');
  await page.close();
}

// decide accepts one definition and refuses another with the keyboard alone. A page that was loaded before decides nothing.
async function decide(browser) {
  const before = await browser.newPage();
  await before.goto(admin + '/ui/approve');
  const page = await watched(browser, looks.light);
  const press = async (tool, value, done) => {
    await page.goto(admin + '/ui/approve');
    for (let i = 0; i < 200; i++) {
      await page.keyboard.press('Tab');
      const there = await page.evaluate(([tool, value]) => {
        const e = document.activeElement;
        return e.matches('.decision button') && e.value === value && e.form.elements.tool.value === tool;
      }, [tool, value]);
      if (there) break;
    }
    await Promise.all([page.waitForURL(/done=/), page.keyboard.press('Enter')]);
    check((await page.textContent('.done')).includes(`${tool} was ${done}`), 'approve', 'says', await page.textContent('.done'));
  };
  await press('plain', 'accept', 'accepted');
  check((await card(page, 'plain').count()) === 0, 'approve', 'an accepted definition is still there');
  await page.goto(admin + '/ui/catalog?q=plain');
  await page.waitForFunction(() => document.body.textContent.includes('hostile__plain'));
  await press('asks', 'refuse', 'refused');
  check((await card(page, 'asks').locator('.tag').first().textContent()) === 'refused', 'approve', 'a refused definition is not marked');
  check((await card(page, 'asks').locator('button[value=refuse]').count()) === 0, 'approve', 'a refused definition can be refused again');
  await Promise.all([before.waitForResponse((r) => r.request().method() === 'POST' && r.status() === 409), card(before, 'plain').locator('button[value=accept]').click()]);
  await before.waitForSelector('text=Nothing was decided');
  await before.close();
  await page.close();
}

async function revoke(browser) {
  const page = await watched(browser, looks.light);
  await page.goto(admin + '/ui/grants');
  check((await page.textContent('tbody')).includes('machine'), 'grants', 'the grant is missing');
  await page.locator('tbody button').focus();
  await Promise.all([page.waitForURL(/done=up/), page.keyboard.press('Enter')]);
  await page.waitForSelector('text=Nobody has granted access');
  await page.close();
}

// refused sends actions that nobody may: from another origin, in a frame, and where the console only shows.
async function refused(browser) {
  const page = await browser.newPage();
  await page.goto(shows + '/ui/approve');
  check((await page.locator('.decision').count()) === 0, 'only shows', 'there are buttons');
  const [status, text] = await page.evaluate(async () => {
    const fields = new URLSearchParams({ csrf: document.querySelector('input[name=csrf]').value, upstream: 'hostile', tool: 'plain', decision: 'accept' });
    const answer = await fetch('/ui/approve', { method: 'POST', body: fields });
    return [answer.status, await answer.text()];
  });
  check(status === 403 && text.includes('admin.actions: true'), 'only shows', 'an action is answered with', status);
  const server = http.createServer((_, w) => w.setHeader('content-type', 'text/html').end('<!DOCTYPE html><title>evil</title><iframe></iframe>'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const evil = `http://127.0.0.1:${server.address().port}/`;
  await page.close();
  for (const path of ['/ui/approve', '/ui/grants']) {
    const page = await browser.newPage(); // the answer to the form of the one before may still load
    await page.goto(evil);
    await page.evaluate((to) => new Promise((done) => Object.assign(document.querySelector('iframe'), { onload: done, src: to })), admin + path);
    const framed = await Promise.all(page.frames().slice(1).map((f) => f.evaluate(() => document.body?.textContent ?? '').catch(() => '')));
    check(!framed.join('').includes('Approve'), 'another origin', 'a frame shows', path);
    const [answer] = await Promise.all([
      page.waitForResponse((r) => r.url() === admin + path && r.request().method() === 'POST'),
      page.evaluate((to) => {
        const form = Object.assign(document.createElement('form'), { method: 'post', action: to });
        document.body.append(form);
        form.submit();
      }, admin + path),
    ]);
    check(answer.status() === 403, 'another origin', path, 'is answered with', answer.status());
    await page.close();
  }
  await new Promise((done) => server.close(done));
}

const browser = await launch();
try {
  for (const part of [looksRight, differs, refused, decide, revoke]) await part(browser).catch((e) => fail(part.name, e.message));
} finally {
  await browser.close();
}
process.exit(failures() ? 1 : 0);
