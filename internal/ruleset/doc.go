// Package ruleset compiles the rules of a configuration: the policy, the profiles with the tools
// that files define, the endpoints, and the rules for items and results. The gateway makes one
// [Rules] for each configuration in force; verbs that do not start a gateway make one to inspect
// it.
//
//	config.Config ──New──▶ Rules ──▶ catalog (policy, profiles), router (results), metatool (scripts), endpoint
//
// The package does no input or output: config has read all files. Whether a connection exists or
// works makes no difference to the rules. Rules are immutable, so they may be used concurrently.
package ruleset
