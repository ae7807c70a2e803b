// Package enrich adds the metadata of the draft SEP-2093 to results and list items.
//
// [ReadResult] adds metadata from lists to the contents of resources. [Annotations] and
// [RequestAnnotations] copy the annotations of embedded resources to the place where older
// readers look for them, and to the place that the draft gives them. [ListItem] adds the
// type of a resource if it follows from its MIME type. Existing members are never changed.
//
// The package is pure. Its functions take and return valid JSON, return the very slice
// that they were given if nothing is added, and change nothing the second time.
package enrich
