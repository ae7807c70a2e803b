// Package consent builds the question by which the gateway asks a user to confirm a call.
//
// The question shows everything that the user needs to know: the item, and every member of the
// arguments. A caller of the item chose the arguments, perhaps to deceive the user, so invisible
// characters are escaped, long values are cut with their length and digest, and a question that
// would hide something is not asked at all.
//
// The package is pure: a question depends only on the arguments of the function.
package consent
