// Package reload changes the configuration of the real gateway while clients of both eras call through it, and restarts gateways behind a balancer.
//
// What is asserted: no call fails at an upstream that stays; every other call ends with an answer or an error that says why; no call is made twice;
// in the end the gateway shows what the last file says, and nothing is left of what was removed. The choices come from a seed, which is printed:
// -seed sets it, -for how long the configuration is changed.
package reload
