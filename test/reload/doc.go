// Package reload changes the configuration of the real gateway while clients of both eras call through it, and restarts gateways behind a balancer.
//
// No call may fail at an upstream that stays. Every other call must end with an answer or an error that states its cause, and no call may be made
// twice. At the end the gateway must show the last configuration, and no part of a removed upstream may remain. A printed seed determines the choices:
// -seed sets it, -for sets the duration.
package reload
