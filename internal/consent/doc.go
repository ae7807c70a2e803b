// Package consent makes the question with which the gateway asks a user whether a call may be made.
//
// The question shows everything that the user needs to know: the item, and every member of the
// arguments. A caller of the item chose the arguments, perhaps to deceive the user, so invisible
// characters are escaped, long values are cut with their length and digest, and a question that
// would hide something is not asked at all.
//
// The package is pure: a question depends on its arguments alone.
package consent
