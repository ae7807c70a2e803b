// Package personal keeps the tables of principals to whom upstreams list items of their own.
//
//	request ─▶ Gather (of the routes) ─▶ Upstream.Gather of each such upstream
//	                │                       │
//	                ▼ waits                 ▼
//	        Principals.ListsChanged ─▶ control loop: Begin, Refresh or Rebuild, Swap, Done
//
// The table of a principal is the same as if the lists of the principal's sessions were those of
// the upstreams, so names follow the same rules. It is built when it is first read.
//
// A request waits until the routes contain what the principal's sessions list. A principal that
// was shown routes is notified of each later change of its lists, once. Only the control loop
// uses an [Update], one at a time; all other methods may be called by many goroutines at once.
package personal
