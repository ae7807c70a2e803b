// Package metatool answers calls of the gateway's own tools.
//
//	search_tools    finds tools of the caller's view by words
//	describe_tools  returns whole definitions by name
//	call_tool       calls any tool of the view; or, one for each kind of effect,
//	                call_read_tool, call_write_tool and call_destructive_tool
//	run_script      runs a script that calls tools, see package script
//
// A profile that lists few tools has them, so that a model reads the definitions that it needs
// and no others. [Items] has their definitions for the catalog, and [Tools] answers their
// calls.
//
// call_tool makes the same call as a direct one: it runs through the whole pipeline under the
// name of the inner tool, and its result or error is returned as it is. The only exceptions are
// mistakes that a model can correct, such as a name that is unknown or arguments in the wrong
// place: they become results that say what would be right.
//
// Everything that the tools say comes from the caller's view. What it hides cannot be found,
// suggested or counted, and takes no time. [Tools] remembers which tools a principal has called,
// and their searches rank those a little higher: for this principal, in this profile.
//
// A Tools may be used by any number of goroutines.
package metatool
