// Package instance lets verbs reach the gateways that this user runs on this machine, without an address or a token.
//
// Each running gateway listens on a Unix socket in the folder run of its user's state folder, so that verbs find it
// without its configuration. The folder does not depend on state_dir. It is readable for its user only, so no other user
// (except root) can connect, read or replace a socket. A path that is too long for a socket is replaced by one in a
// private temporary folder, which a file in run names.
//
// A gateway that was killed leaves its socket behind; [Find] removes sockets on which nobody listens.
package instance
