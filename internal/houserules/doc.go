// Package houserules holds the project's own rules as tests over its source.
package houserules
