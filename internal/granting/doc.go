// Package granting stands between the router and the sessions of an upstream that each principal
// has to grant access to. A call of a principal without a grant never reaches the upstream: it is
// answered with a request for the grant, a page to open in a browser. A call that one
// principal makes in the name of another does not use the other's grant.
package granting
