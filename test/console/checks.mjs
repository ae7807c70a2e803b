// Checks that the programs of this folder share.
import http from 'node:http';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
let found = 0;
export const fail = (what, ...why) => {
  found++;
  console.log(what + ':', ...why);
};
export const check = (ok, what, ...why) => ok || fail(what, ...why);
export const failures = () => found;
export const launch = () => chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });

export const looks = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 800 } },
  phone: { colorScheme: 'light', viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
};

// watch opens a page whose errors, and requests to other origins, are failures. An expression after the origins says which errors are none.
export async function watch(browser, look, ...origins) {
  const expected = typeof origins.at(-1) === 'string' ? /40[14]|429/ : origins.pop();
  const page = await browser.newPage(look);
  page.on('console', (m) => m.type() === 'error' && !expected.test(m.text()) && fail(page.url(), m.text()));
  page.on('pageerror', (e) => expected.test(e.message) || fail(page.url(), e.message));
  page.on('dialog', (d) => fail(page.url(), 'a dialog', d.message()));
  page.on('request', (r) => check(origins.some((o) => r.url().startsWith(o)), page.url(), 'a request to', r.url()));
  return page;
}

// overlaps names the links and buttons of the header that lie on top of each other, or reach out of it, at the width of the page.
const overlaps = () => {
  const header = document.querySelector('header .bar');
  const parts = [...header.querySelectorAll('a, button')].map((e) => [e.textContent.trim(), e.getBoundingClientRect()]).filter(([, r]) => r.width > 0);
  const outer = header.getBoundingClientRect();
  const apart = (a, b) => a.right <= b.left + 0.5 || b.right <= a.left + 0.5 || a.bottom <= b.top + 0.5 || b.bottom <= a.top + 0.5;
  return parts.flatMap(([name, r], i) => [
    ...parts.slice(i + 1).filter(([, other]) => !apart(r, other)).map(([other]) => `${name} and ${other}`),
    ...(r.right > outer.right + 0.5 || r.bottom > outer.bottom + 0.5 ? [`${name} and the edge`] : []),
  ]);
};

// headerFits looks at the header of a page in windows from the width of a phone to that of a desktop, also with larger text, as other fonts
// have it.
export async function headerFits(page, name) {
  const before = page.viewportSize();
  for (const size of ['', '20px']) {
    await page.evaluate((size) => (document.body.style.fontSize = size), size);
    for (const width of [320, 360, 480, 640, 768, 900, 901, 960, 1024, 1099, 1280]) {
      await page.setViewportSize({ width, height: before.height });
      const found = await page.evaluate(overlaps);
      check(found.length === 0, name, `in the header, at a width of ${width} pixels,`, found.join(', '), 'overlap', size && `with text of ${size}`);
    }
  }
  await page.evaluate(() => (document.body.style.fontSize = ''));
  await page.setViewportSize(before);
}

// examine looks for what shuts people out of a page, and keeps a screenshot.
export async function examine(page, name, folder) {
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  check(overflow <= 0, name, 'is', overflow, 'pixels too wide');
  const cut = await page.evaluate(() => [...document.querySelectorAll('.attention, .card:not(.prose)')].filter((e) => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'hidden').map((e) => e.className));
  check(cut.length === 0, name, 'text is cut in', cut.join());
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
  for (const v of found.violations) fail(name, v.id, v.help, JSON.stringify(v.nodes.slice(0, 3).map((n) => [n.html.slice(0, 160), n.failureSummary])));
  check(!(await page.title()).includes('owned'), name, 'a script of a server ran');
  await page.screenshot({ path: `${folder}/${name.replace(/[^a-z0-9]+/gi, '_')}.png`, fullPage: true });
}

// elsewhere is a page of another origin that tries to reach the console of a person who is logged in.
export async function elsewhere(context, target, theme = '/ui/theme') {
  const server = http.createServer((_, w) => w.setHeader('content-type', 'text/html').end('<!DOCTYPE html><title>evil</title>'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  const got = await page.evaluate(async (target) => {
    const read = (init) => fetch(target + '/ui', init).then((r) => r.text().then((text) => (r.type === 'opaque' ? '' : text)), () => '');
    const events = new Promise((done) => {
      const source = new EventSource(target + '/ui/events?page=/ui', { withCredentials: true });
      source.onerror = () => done('');
      source.addEventListener('region', (e) => done(e.data));
    }).then((data) => data);
    const frame = document.createElement('iframe');
    const framed = new Promise((done) => frame.addEventListener('load', done));
    frame.src = target + '/ui';
    document.body.append(frame);
    await framed;
    let inside = '';
    try {
      inside = frame.contentDocument?.body?.textContent ?? '';
    } catch {}
    return { plain: await read({}), withCookies: await read({ credentials: 'include' }), opaque: await read({ mode: 'no-cors', credentials: 'include' }), events: await events, inside };
  }, target);
  for (const [way, text] of Object.entries(got)) check(text === '', 'another origin', way, 'read', text.slice(0, 100));
  for (const f of page.frames().slice(1)) {
    const text = await f.evaluate(() => document.body?.textContent ?? '').catch(() => '');
    check(!text.includes('Overview'), 'another origin', 'a frame shows the console');
  }
  const [answer] = await Promise.all([
    page.waitForResponse(target + theme),
    page.evaluate((action) => {
      const form = Object.assign(document.createElement('form'), { method: 'post', action });
      form.append(Object.assign(document.createElement('input'), { name: 'theme', value: 'dark' }));
      document.body.append(form);
      form.submit();
    }, target + theme),
  ]);
  check(answer.status() === 403, 'another origin', 'a form is answered with', answer.status());
  await page.close();
  await new Promise((done) => server.close(done));
}
