// The page "Try it": calls of real servers from their forms, with questions, progress, images, tables and apps.

// tries takes what browser.mjs has.
export async function tries({ browser, admin, looks, watched, inspect, check }) {
  const open = async (page, name, kind = 'tool') => {
    await page.goto(`${admin}/ui/catalog/item?kind=${kind}&name=${encodeURIComponent(name)}`);
    await Promise.all([page.waitForURL(/\/ui\/try\?/), page.click('text="Try it"')]);
  };
  const call = (page) => Promise.all([page.waitForURL(/\/ui\/try\/run/), page.click('.primary')]);
  const over = (page, state) => page.waitForSelector(`#state .state.${state}`);

  const parts = {
    async echo(page, look) {
      await open(page, 'everything__echo');
      await page.fill('#as', 'ann');
      await page.fill('textarea[name="f.0"]', 'hello');
      await inspect(page, `${look} try`);
      await call(page);
      await over(page, 'ok');
      check((await page.textContent('#outcome')).includes('Echo: hello'), 'echo', 'no result');
      check((await page.textContent('.sub')).includes('ann'), 'echo', 'not as ann');
      await inspect(page, `${look} try result`);
    },
    async image(page, look) {
      await open(page, 'everything__get-tiny-image');
      await call(page);
      await over(page, 'ok');
      const size = await page.$eval('.block img', (i) => i.decode().then(() => i.naturalWidth));
      check(size > 0, 'image', 'is not shown');
      await inspect(page, `${look} try image`);
    },
    async structured(page, look) {
      await open(page, 'everything__get-structured-content');
      await page.selectOption('select[name="f.0"]', { index: 1 });
      await call(page);
      await over(page, 'ok');
      check((await page.textContent('.structured')).includes('temperature'), 'structured', 'no table');
      await inspect(page, `${look} try structured`);
    },
    async elicitation(page, look) {
      await open(page, 'everything__trigger-elicitation-request');
      await call(page);
      await page.waitForSelector('#question');
      await inspect(page, `${look} try question`);
      await page.click('#ask .primary');
      if (await page.locator('#ask input:invalid, #ask textarea:invalid').count()) await page.locator('#ask input:invalid, #ask textarea:invalid').first().fill('Ann');
      if (await page.locator('#question').count()) await page.click('#ask .primary');
      await over(page, 'ok');
      check((await page.textContent('#outcome')).includes('Ann'), 'elicitation', 'the answer did not arrive', await page.textContent('#outcome'));
    },
    async links(page) {
      await open(page, 'everything__get-resource-links');
      await call(page);
      await over(page, 'ok');
      await Promise.all([page.waitForNavigation(), page.locator('#outcome button:has-text("Read it as")').first().click()]);
      await over(page, 'ok');
      check((await page.textContent('#outcome')).includes('demo://') || (await page.textContent('#outcome')).includes('resource'), 'links', 'nothing was read');
    },
    async sampling(page) {
      await open(page, 'everything__trigger-sampling-request');
      await page.fill('textarea[name="f.0"]', 'write');
      await call(page);
      await page.waitForSelector('#state a');
      check((await page.textContent('main')).includes('no model'), 'sampling', 'is not refused with a word');
    },
    async progress(page, look) {
      await open(page, 'hostile__waits');
      await call(page);
      await page.waitForSelector('progress');
      await inspect(page, `${look} try progress`);
      await page.click('text="Cancel the call"');
      await over(page, 'error');
      check((await page.textContent('#outcome')).includes('You cancelled the call'), 'cancel', 'is not said');
    },
    async prompt(page) {
      await open(page, 'everything__args-prompt', 'prompt');
      await page.fill('textarea[name="f.0"]', 'Berlin');
      await call(page);
      await over(page, 'ok');
      check((await page.textContent('#outcome')).includes('Berlin'), 'prompt', 'no message');
    },
    async hostile(page, look) {
      await open(page, 'hostile__plain');
      await page.locator('button[name=add]').first().click();
      await page.waitForFunction(() => document.activeElement?.name === 'f.2.0.0'); // the item that was added has the focus
      await page.keyboard.type('3');
      await inspect(page, `${look} try hostile form`);
      await call(page);
      await over(page, 'ok');
      await inspect(page, `${look} try hostile result`);
      await open(page, 'questions__asks');
      await call(page);
      await page.waitForSelector('#question');
      await inspect(page, `${look} try hostile question`);
      await page.click('text="Answer nothing"');
      await page.click('text="Cancel the call"'); // the server never answers
      await over(page, 'error');
      await open(page, 'hostile__fails');
      await call(page);
      await over(page, 'error');
      await inspect(page, `${look} try hostile error`);
    },
    async app(page, look) {
      await open(page, 'hostile__app');
      await call(page);
      await over(page, 'ok');
      await Promise.all([page.waitForNavigation(), page.click('text=Read the app')]);
      await over(page, 'ok');
      check((await page.textContent('#outcome')).includes('https://api.example.com'), 'app', 'the network is not listed');
      await inspect(page, `${look} try app before`);
      await Promise.all([page.waitForURL(/app=open/), page.click('text="Open the app"')]);
      const frame = page.frameLocator('iframe.app');
      await frame.locator('#told:has-text("script")').waitFor();
      const out = await frame.locator('#out').textContent();
      for (const want of ['parent=refused', 'cookie=refused', 'console=refused', 'call=-32601']) check(out.includes(want), 'app', 'lacks', want, 'in', out);
      check(page.url().includes('app=open'), 'app', 'it has navigated the page');
      await page.screenshot({ path: `${process.argv[6]}/${look}_try_app.png`, fullPage: true });
    },
  };
  for (const [look, options] of Object.entries(looks)) {
    for (const [name, part] of Object.entries(parts)) {
      if (look === 'dark' && !['echo', 'elicitation', 'hostile'].includes(name)) continue;
      const page = await watched(browser, options, ...(name === 'app' ? [/404|Content Security Policy|Fetch API|Unsafe attempt|^\s*$/] : []));
      await part(page, look).catch((e) => check(false, `${look} ${name}`, e.message, page.url()));
      await page.close();
    }
  }
  await byKeyboard();
  await withoutScript();

  async function byKeyboard() {
    const page = await watched(browser, looks.light);
    await page.goto(`${admin}/ui/try?kind=tool&name=everything__echo`);
    await page.focus('#as');
    await page.keyboard.press('Tab');
    await page.keyboard.type('typed');
    await page.keyboard.press('Tab');
    await Promise.all([page.waitForURL(/\/ui\/try\/run/), page.keyboard.press('Enter')]);
    await over(page, 'ok');
    check((await page.textContent('#outcome')).includes('Echo: typed'), 'keyboard', 'no result');
    await page.goto(`${admin}/ui/try?kind=tool&name=everything__get-sum`);
    await page.fill('input[name="f.0"]', '2');
    await page.fill('input[name="f.1"]', '3');
    await Promise.all([page.waitForURL(/\/ui\/try\/run/), page.keyboard.press('Enter')]); // Enter in a field calls
    await over(page, 'ok');
    await page.close();
  }

  async function withoutScript() {
    const context = await browser.newContext({ javaScriptEnabled: false });
    const page = await context.newPage();
    await page.goto(`${admin}/ui/try?kind=tool&name=everything__echo`);
    await page.fill('#args', '{"message": "plain"}');
    await page.click('text="Call with the JSON"');
    for (const end = Date.now() + 60_000; Date.now() < end && !(await page.textContent('main')).includes('done'); ) await page.reload();
    check((await page.textContent('main')).includes('Echo: plain'), 'without script', 'no result');
    await context.close();
  }
}
