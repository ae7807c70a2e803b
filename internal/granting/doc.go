// Package granting checks grants between the router and the sessions of an upstream, for
// upstreams to which each principal has to grant access. A call of a principal without a grant
// never reaches the upstream: the answer is a request for the grant, with the URL of a page. If
// one principal makes a call in the name of another, the call does not use the other's grant.
package granting
