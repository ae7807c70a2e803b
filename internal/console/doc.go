// Package console reads from people and writes to them: tables, progress, results of tools, and
// questions of servers.
//
//	standard output ◀── Table, Result
//	Screen          ◀── lines, progress and log of several writers
//	Prompter        ◀─▶ a person who answers forms and confirmations
//
// The text comes from servers, which are not trusted: on a terminal control characters become visible
// escapes, see [Clean]. Color and progress are for terminals only. A [Screen] may be used
// concurrently, everything else by one.
package console
