// Package ttlcache holds a bounded cache whose entries expire.
package ttlcache
