// Package sharedtasks keeps a list of the tasks of each principal in a store, for all replicas
// together.
//
// The [Book] has the public ids of tasks only. They are sealed for their principals, and name the
// upstream and the replica of the task. While the store does not answer, a replica remembers its new
// tasks and removals, and writes them when the store is back.
package sharedtasks
