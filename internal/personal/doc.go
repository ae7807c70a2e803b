// Package personal keeps the tables of principals for which upstreams list different items than
// for others.
//
//	request ─▶ Gather (of the routes) ─▶ Upstream.Gather of each such upstream
//	                │                       │
//	                ▼ waits                 ▼
//	        Principals.ListsChanged ─▶ control loop: Begin, Refresh or Rebuild, Swap, Done
//
// The table of a principal is built from the lists of the principal's sessions, as if they were
// those of the upstreams, so names follow the same rules. It is built when it is first read.
//
// A request waits until the routes contain the items of the principal's sessions. After a
// principal has used routes, it is notified once of each later change of its lists. Only the
// control loop uses an [Update], one at a time; all other methods may be called concurrently.
package personal
