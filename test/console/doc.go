// Package console looks at the console with a real browser: headless Chromium opens every page of the real binary in both themes and at the
// width of a phone, with a server whose every text is markup, script and control characters. axe looks for what shuts people out.
//
// The checks are in browser.mjs. Its screenshots are in the folder of the flag -screenshots, for people to look at.
package console
