package bench

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

// testdataWords are the counts of testdata/words.
var testdataWords = map[string]int64{
	"the": 3, "The": 1, "cat": 1, "and": 1, "hat": 1, "the_cat": 1, "cat2": 1, "café": 2, "naïve": 1, "end": 1,
}

func embeddedCount(out *bytes.Buffer) *WordCount {
	return &WordCount{Input: "testdata/words", Producers: 3, Consumers: 2, Embedded: true, Top: 2,
		Environment: Environment{Out: out}}
}

func TestWordsOfAFolderAreCountedAlone(t *testing.T) {
	files, err := ListInput("testdata/words")
	require.NoError(t, err)
	counts, err := embeddedCount(nil).countAlone(t.Context(), files)
	require.NoError(t, err)
	got := make(map[string]int64)
	for _, w := range counts.Words() {
		got[w.Word] = w.Count
	}
	require.Equal(t, testdataWords, got)
}

func TestEmbeddedWordCountGivesTheExactCounts(t *testing.T) {
	var out bytes.Buffer
	f, err := embeddedCount(&out).Run(t.Context())
	require.NoError(t, err)
	require.Len(t, f.Results, 1)
	require.Positive(t, f.Results[0].Medians[results.RecordsPerS])
	require.Contains(t, out.String(), "input: 4 files, 71 bytes of text in testdata/words\n")
	require.Contains(t, out.String(), "top words:\n  3  the\n  2  café\n")
	require.Regexp(t, `(?s)verified: 13 words, 10 distinct, identical to the single-process count\n$`, out.String())
}

func TestMiscountIsShownWithTheWord(t *testing.T) {
	var out bytes.Buffer
	job := embeddedCount(&out)
	job.Consumers, job.Fault = 1, Miscount
	_, err := job.Run(t.Context())
	require.ErrorIs(t, err, ErrDifferent)
	require.ErrorContains(t, err, "1 of 10 words have another count")
	require.Regexp(t, `differs: \S+: \d, single process \d\n$`, out.String())
	require.NotContains(t, out.String(), "verified")
}

func TestEmbeddedWordCountEndsWhenAProducerFails(t *testing.T) {
	for name, change := range map[string]func(*WordCount, string){
		"told to fail": func(j *WordCount, _ string) { j.Fault = FailProducing },
		"no such file": func(j *WordCount, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "there"), []byte("a b"), 0o644))
			j.Input = dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			job, dir := embeddedCount(&out), t.TempDir()
			change(job, dir)
			files, err := ListInput(job.Input)
			require.NoError(t, err)
			if job.Fault == NoFault {
				require.NoError(t, os.Remove(files[0].Path))
			}
			e := Exchange{Name: newExchangeName(), Producers: job.Producers, Consumers: job.Consumers}
			_, _, err = job.shuffle(t.Context(), e, DealFiles(files, job.Producers), 1)
			require.ErrorContains(t, err, name)
		})
	}
}

func TestEmbeddedWordCountEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	var out bytes.Buffer
	_, err := embeddedCount(&out).Run(ctx)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}
