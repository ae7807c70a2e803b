// Package latest remembers the latest credentials of each principal.
//
// Subscriptions, tasks and sessions outlive the request that made them. When the same
// principal sends a later request with fewer groups or scopes, what they hold has to be
// judged by those, too. So the gateway records the principal of each authenticated
// request, and whatever outlives a request asks for the latest record.
package latest
