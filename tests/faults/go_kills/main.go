// Clients of nats.go that keep on through every fault. What they see leaves as JSON lines.
// A first line on stdin ends the publishing, a second one everything.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream  = "KILLS"
	ackWait = 2 * time.Second
)

// line is one thing that a client saw.
type line struct {
	At    int64  `json:"at"` // Unix time in milliseconds
	Name  string `json:"name"`
	Event string `json:"event"`
	Seq   uint64 `json:"seq,omitempty"`
	Count uint64 `json:"count,omitempty"`
	Text  string `json:"text,omitempty"`
}

var publishing atomic.Bool

var out = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func say(one line) {
	one.At = time.Now().UnixMilli()
	out.Lock()
	defer out.Unlock()
	check(out.Encode(one))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func connect(url string) jetstream.JetStream {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(500*time.Millisecond))
	check(err)
	js, err := jetstream.New(nc)
	check(err)
	return js
}

// handler acks most messages at their first delivery and every fifth at its second; three of four acks are double.
func handler(name string) jetstream.MessageHandler {
	return func(msg jetstream.Msg) {
		meta, err := msg.Metadata()
		check(err)
		seq := meta.Sequence.Stream
		say(line{Name: name, Event: "came", Seq: seq, Count: meta.NumDelivered})
		if seq%5 == 0 && meta.NumDelivered < 2 {
			return
		}
		if seq%4 == 0 {
			_ = msg.Ack()
			return
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if msg.DoubleAck(ctx) == nil {
				say(line{Name: name, Event: "acked", Seq: seq})
			}
		}()
	}
}

func trouble(name string) func(error) {
	return func(err error) { say(line{Name: name, Event: "error", Text: err.Error()}) }
}

func pull(js jetstream.JetStream, name string, config jetstream.ConsumerConfig) {
	consumer, err := js.CreateConsumer(context.Background(), stream, config)
	check(err)
	told := trouble(name)
	consuming, err := consumer.Consume(handler(name),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { told(err) }))
	check(err)
	go func() {
		<-consuming.Closed()
		say(line{Name: name, Event: "ended"})
	}()
}

func push(js jetstream.JetStream, name string, config jetstream.ConsumerConfig) {
	config.DeliverSubject, config.IdleHeartbeat = "deliver."+name, 2*time.Second
	consumer, err := js.CreatePushConsumer(context.Background(), stream, config)
	check(err)
	told := trouble(name)
	_, err = consumer.Consume(handler(name),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { told(err) }))
	check(err)
}

func ordered(js jetstream.JetStream, name string) {
	consumer, err := js.OrderedConsumer(context.Background(), stream, jetstream.OrderedConsumerConfig{})
	check(err)
	told := trouble(name)
	_, err = consumer.Consume(func(msg jetstream.Msg) {
		meta, err := msg.Metadata()
		check(err)
		say(line{Name: name, Event: "came", Seq: meta.Sequence.Stream, Count: meta.NumDelivered})
	}, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { told(err) }))
	check(err)
}

// list says once in a while which consumers there are.
func list(js jetstream.JetStream) {
	for {
		time.Sleep(500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		if handle, err := js.Stream(ctx, stream); err == nil {
			var names []string
			listed := handle.ConsumerNames(ctx)
			for name := range listed.Name() {
				names = append(names, name)
			}
			if listed.Err() == nil {
				say(line{Name: stream, Event: "consumers", Text: strings.Join(names, " ")})
			}
		}
		cancel()
	}
}

// publish publishes until stopped; now and then a message for those who else hear nothing.
func publish(js jetstream.JetStream, pause time.Duration) {
	for number := 0; publishing.Load(); number++ {
		subject := "kills.busy"
		if number%2000 == 1999 {
			subject = "kills.quiet"
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		ack, err := js.Publish(ctx, subject, []byte(fmt.Sprint(number)), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			say(line{Name: subject, Event: "published", Seq: ack.Sequence})
		}
		time.Sleep(pause)
	}
}

func main() {
	url := os.Args[1]
	pause, err := time.ParseDuration(os.Args[2])
	check(err)
	js := connect(url)
	_, err = js.CreateStream(context.Background(),
		jetstream.StreamConfig{Name: stream, Subjects: []string{"kills.>"}, AllowDirect: true})
	check(err)
	config := func(durable, filter string, threshold time.Duration) jetstream.ConsumerConfig {
		return jetstream.ConsumerConfig{Durable: durable, FilterSubject: filter, InactiveThreshold: threshold,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 2000}
	}
	named := func(name string, config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
		config.Name = name
		return config
	}
	pull(connect(url), "pull", config("pull", "", 0))
	push(connect(url), "push", config("push", "", 0))
	ordered(connect(url), "ordered")
	pull(connect(url), "short", named("short", config("", "", 5*time.Second)))
	pull(connect(url), "long", named("long", config("", "", 5*time.Minute)))
	pull(connect(url), "quiet", named("quiet", config("", "kills.quiet", 5*time.Second)))
	push(connect(url), "pushed", named("pushed", config("", "", 5*time.Second)))
	say(line{Name: stream, Event: "ready"})
	publishing.Store(true)
	go publish(connect(url), pause)
	go list(connect(url))
	orders := bufio.NewScanner(os.Stdin)
	orders.Scan()
	publishing.Store(false)
	orders.Scan()
}
