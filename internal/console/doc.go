// Package console is what people read and type: tables, lines that come while
// something goes on, results of tools, and questions of servers.
//
//	Out ◀── Table, Result            standard output: what was asked for
//	Screen ◀── lines, progress, log  one terminal that several write to
//	Prompter ◀─▶ Form, Confirm       a person who answers
//
// Everything that is shown comes from servers, which are not trusted: on a
// terminal control characters are shown as such and never obeyed, see [Clean].
// Colour and progress are for terminals alone. A [Screen] may be used by many
// goroutines at once, everything else by one.
package console
