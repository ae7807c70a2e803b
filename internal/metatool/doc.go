// Package metatool answers calls of the gateway's own tools.
//
//	search_tools    finds tools of the caller's view by words
//	describe_tools  returns whole definitions by name
//	call_tool       calls any tool of the view; or, one for each kind of effect,
//	                call_read_tool, call_write_tool and call_destructive_tool
//	run_script      runs a script that calls tools, see package script
//
// Profiles with catalog: search or scripts have these tools, so that a model reads only the
// definitions that it needs. [Items] has their definitions for the catalog, and [Tools] answers
// their calls.
//
// call_tool makes the same call as a direct one: the call runs through the whole pipeline under
// the name of the inner tool, and its result or error is returned unchanged. The only exceptions
// are errors that a model can correct, such as an unknown name or arguments in the wrong place:
// they become results with the correct form.
//
// The tools use only the caller's view. A hidden tool cannot be found, suggested or counted, and
// does not change the time of a search. [Tools] remembers which tools a principal has called,
// and their searches rank those a little higher: for this principal, in this profile.
//
// A Tools may be used concurrently.
package metatool
