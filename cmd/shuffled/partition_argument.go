package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"shuffled/client"
	"shuffled/internal/cli"
	"shuffled/shuffle"
)

// leastPrefix is how many digits of an id are enough to look for it.
const leastPrefix = 4

// A partitionArgument is how a command line names a partition: by its id, by the
// first digits of it, by its name, or by the name that its id was made from.
type partitionArgument struct {
	text  string
	owner *uint32 // nil stands for any
}

// setting is the flag that says whose partition is meant.
func (a *partitionArgument) setting() *setting {
	return &setting{
		name: "owner", group: "Flags", arg: "UID", value: uidValue{&a.owner}, flagOnly: true,
		help: "Whose partition is meant, if several users have one of that id or name.",
	}
}

// onPartition is a command about one partition: it reads the command line, finds the
// partition and calls f with what the daemon knows of it.
func onPartition(p process, c *cobra.Command,
	f func(ctx context.Context, c *client.Client, o *operatorOptions, info *shuffle.PartitionInfo) error,
) *cobra.Command {
	o, which := newOperatorOptions(), &partitionArgument{}
	return p.command(c, append(o.settings(), which.setting()), func(args []string) error {
		which.text = args[0]
		return o.ask(func(ctx context.Context, c *client.Client) error {
			info, err := which.inspect(ctx, c)
			if err != nil {
				return err
			}
			return f(ctx, c, o, &info)
		})
	})
}

// inspect finds the partition and returns what the daemon knows of it. Of one that
// has ended and is not listed any more, the error says what became of it.
func (a *partitionArgument) inspect(ctx context.Context, c *client.Client) (shuffle.PartitionInfo, error) {
	id, idErr := shuffle.ParsePartitionID(strings.ToLower(a.text))
	if idErr != nil {
		found, err := a.search(ctx, c)
		if err != nil {
			return shuffle.PartitionInfo{}, err
		}
		if found != nil {
			return c.InspectOf(ctx, found.ID, found.Producer.UID)
		}
		id = shuffle.NamedPartitionID(a.text)
	}
	var info shuffle.PartitionInfo
	var err error
	if a.owner != nil {
		info, err = c.InspectOf(ctx, id, *a.owner)
	} else {
		info, err = c.Inspect(ctx, id)
	}
	if errors.Is(err, shuffle.ErrPartitionNotFound) && idErr != nil {
		return info, fmt.Errorf("%w: none that this user may read has the name %s, the id %s that is made from it, or an id that begins so; 'shuffled list' shows them",
			shuffle.ErrPartitionNotFound, strconv.QuoteToGraphic(a.text), id)
	}
	if errors.Is(err, shuffle.ErrInvalidArgument) {
		return info, fmt.Errorf("%w; say whose with --owner", err)
	}
	return info, err
}

// search looks among the partitions that are listed, and returns nil if none fits.
func (a *partitionArgument) search(ctx context.Context, c *client.Client) (*shuffle.PartitionInfo, error) {
	rows, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	named := shuffle.NamedPartitionID(a.text)
	prefix := strings.ToLower(a.text)
	var byName, byPrefix []*shuffle.PartitionInfo
	for i := range rows {
		row := &rows[i]
		switch {
		case a.owner != nil && row.Producer.UID != *a.owner:
		case row.Name == a.text || row.ID == named:
			byName = append(byName, row)
		case len(prefix) >= leastPrefix && strings.HasPrefix(row.ID.String(), prefix):
			byPrefix = append(byPrefix, row)
		}
	}
	found := byName
	if len(found) == 0 {
		found = byPrefix
	}
	if len(found) > 1 {
		return nil, cli.Usagef("%s is the name or the beginning of the id of %d partitions, of %s; name one by its whole id, and by --owner",
			strconv.QuoteToGraphic(a.text), len(found), describeSome(found))
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// describeSome names the first few partitions of a list.
func describeSome(rows []*shuffle.PartitionInfo) string {
	const most = 5
	var texts []string
	for _, row := range rows[:min(len(rows), most)] {
		texts = append(texts, fmt.Sprintf("%s (name %s, uid %d)", row.ID, displayName(row.Name), row.Producer.UID))
	}
	if len(rows) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(rows)-most))
	}
	return strings.Join(texts, ", ")
}
