// Package latest remembers the latest credentials of each principal.
//
// Subscriptions, tasks and sessions outlive the request that made them. When the same
// principal sends a later request with fewer groups or scopes, policy
// must judge them by those groups and scopes. So the gateway records the principal of each
// authenticated request, and subscriptions, tasks and sessions use the latest record.
package latest
