// Package advice completes the commands that messages advise, such as "run gateway login tickets -c other.yaml". A command
// without the flag would be about the configuration that it finds by itself.
package advice
