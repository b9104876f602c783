/* A server that costs little and knows the truth, to measure benchmark clients with.
 *
 *     cc -O2 -o mock_server mock_server.c && ./mock_server [PORT [CORE]]
 *
 * One thread, one epoll, loopback only. It says its port on stdout (PORT 0, the default: a free one) and ends with
 * the process that started it. CORE pins it.
 *
 *     POST /v1/completions, /v1/chat/completions   streamed as vLLM streams: one HTTP chunk an event, the counts in
 *                                                  a last event if stream_options asks for them, then [DONE]
 *     GET /v1/models, /health
 *     GET /control?burst=1&ttft_ms=200&itl_ms=20   how to answer from now on (what is left out is 0); forgets the
 *                                                  record. Not to be asked while a stream is under way
 *     GET /record                                  the truth, as JSON
 *
 * burst: the whole answer in one write, ttft_ms after the request. Else event k goes out alone, in a write of its
 * own, ttft_ms + k * itl_ms after the request; with itl_ms 0 as fast as possible, all streams in turn.
 *
 * Every write is stamped just before it is made, on CLOCK_MONOTONIC (Python's perf_counter on Linux), so that the
 * server's own lateness is in the record and not in a client's error. A prompt has as many tokens as words.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024, WRITES_BETWEEN_READS = 256, MAX_TOKENS = 1 << 20 };
static const char HEAD[] =
    "HTTP/1.1 200 OK\r\ndate: Tue, 01 Dec 2026 00:00:00 GMT\r\nserver: uvicorn\r\n"
    "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
static const char END[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void *must(void *memory) {
    if (!memory) die("memory");
    return memory;
}

/* -- bytes that grow */

typedef struct {
    char *at;
    size_t size, room;
} Bytes;

static void append(Bytes *bytes, const void *data, size_t size) {
    if (bytes->size + size > bytes->room) {
        bytes->room = (bytes->size + size) * 2;
        bytes->at = must(realloc(bytes->at, bytes->room));
    }
    memcpy(bytes->at + bytes->size, data, size);
    bytes->size += size;
}

__attribute__((format(printf, 2, 3))) static void print(Bytes *bytes, const char *form, ...) {
    char text[1024];
    va_list values;
    va_start(values, form);
    int size = vsnprintf(text, sizeof text, form, values);
    va_end(values);
    append(bytes, text, size);
}

static void append_event(Bytes *bytes, const char *json) {
    print(bytes, "%zx\r\n", strlen(json) + 8);
    append(bytes, "data: ", 6);
    append(bytes, json, strlen(json));
    append(bytes, "\n\n\r\n", 4);
}

/* -- answers: the bytes of every event, made once for each endpoint and length */

typedef struct Answer {
    bool chat;
    int tokens;
    Bytes bytes;
    size_t *end; /* of event k in bytes; event 0 holds the head as well */
    struct Answer *next;
} Answer;

static const char *preamble(bool chat) {
    return chat ? "\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion.chunk\","
                  "\"created\":1764547200,\"model\":\"mock\""
                : "\"id\":\"cmpl-0123456789abcdef0123456789abcdef\",\"object\":\"text_completion\","
                  "\"created\":1764547200,\"model\":\"mock\"";
}

static void append_token(Bytes *bytes, bool chat, int k, bool last) {
    char json[512];
    const char *finish = last ? "\"length\"" : "null";
    if (chat)
        snprintf(json, sizeof json,
                 "{%s,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" w%d\"},\"logprobs\":null,"
                 "\"finish_reason\":%s,\"token_ids\":null}]}", preamble(chat), k % 1000, finish);
    else
        snprintf(json, sizeof json,
                 "{%s,\"choices\":[{\"index\":0,\"text\":\" w%d\",\"logprobs\":null,\"finish_reason\":%s,"
                 "\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}],\"usage\":null}",
                 preamble(chat), k % 1000, finish);
    append_event(bytes, json);
}

static Answer *answer(bool chat, int tokens) {
    static Answer *made = NULL;
    for (Answer *a = made; a; a = a->next)
        if (a->chat == chat && a->tokens == tokens) return a;
    Answer *a = must(calloc(1, sizeof *a));
    *a = (Answer){.chat = chat, .tokens = tokens, .next = made, .end = must(calloc(tokens, sizeof(size_t)))};
    append(&a->bytes, HEAD, sizeof HEAD - 1);
    if (chat) { /* the role comes first, in the same write as the first token */
        char json[512];
        snprintf(json, sizeof json,
                 "{%s,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                 "\"logprobs\":null,\"finish_reason\":null}]}", preamble(chat));
        append_event(&a->bytes, json);
    }
    for (int k = 0; k < tokens; k++) {
        append_token(&a->bytes, chat, k, k == tokens - 1);
        a->end[k] = a->bytes.size;
    }
    return made = a;
}

/* -- the record */

typedef struct {
    double received, *writes;
    int count, tokens;
} Stream;

static struct {
    double first_received, cpu_before;
    long requests, connections, aborted, open_streams, most_streams;
    Stream *streams;
    int count, room;
} record;

static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void forget(void) {
    for (int i = 0; i < record.count; i++) free(record.streams[i].writes);
    free(record.streams);
    memset(&record, 0, sizeof record);
    record.cpu_before = cpu();
}

static void keep(Stream stream) {
    if (record.count == record.room) {
        record.room = record.room ? 2 * record.room : 1024;
        record.streams = must(realloc(record.streams, record.room * sizeof(Stream)));
    }
    record.streams[record.count++] = stream;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear interpolation between the two nearest, as numpy's default. Sorts. */
static double percentile(double *values, size_t count, double percent) {
    if (!count) return 0;
    qsort(values, count, sizeof *values, by_size);
    double place = (count - 1) * percent / 100;
    size_t low = place, high = low + 1 < count ? low + 1 : low;
    return values[low] + (values[high] - values[low]) * (place - low);
}

static Bytes recorded(void) {
    size_t gaps = 0, count = 0;
    for (int i = 0; i < record.count; i++) gaps += record.streams[i].count - 1;
    double *itl = must(malloc((gaps + 1) * sizeof *itl)), sum = 0;
    for (int i = 0; i < record.count; i++)
        for (int k = 1; k < record.streams[i].count; k++) {
            double gap = record.streams[i].writes[k] - record.streams[i].writes[k - 1];
            itl[count++] = gap;
            sum += gap;
        }
    Bytes text = {0};
    print(&text, "{\"requests\":%ld,\"connections\":%ld,\"aborted\":%ld,\"most_streams\":%ld,\"cpu_s\":%.6f,",
          record.requests, record.connections, record.aborted, record.most_streams, cpu() - record.cpu_before);
    print(&text, "\"first_received\":%.9f,\"mean_itl_s\":%.9f,\"p99_itl_s\":%.9f,\"streams\":[",
          record.first_received, count ? sum / count : 0, percentile(itl, count, 99));
    for (int i = 0; i < record.count; i++) {
        Stream s = record.streams[i];
        print(&text, "%s[%.9f,%.9f,%.9f,%d]", i ? "," : "", s.received, s.writes[0], s.writes[s.count - 1], s.tokens);
    }
    append(&text, "]}", 2);
    free(itl);
    return text;
}

/* -- connections */

typedef struct Connection {
    int fd;
    Bytes in, out; /* out: what the socket did not take yet */
    size_t sent;
    Answer *answer; /* of the stream under way */
    Stream stream;
    Bytes tail; /* what follows the last event */
    double due;
    struct Connection *before, *after; /* in its queue */
    struct Queue *queue;
} Connection;

/* In order of `due`, since each is put in with the same delay after something that is in order. */
typedef struct Queue {
    Connection *first, *last;
} Queue;

static Queue starting, going;
static int epoll;
static struct {
    bool burst;
    double ttft, itl;
} manner;

static void enter(Queue *queue, Connection *c) {
    c->queue = queue;
    c->before = queue->last;
    c->after = NULL;
    *(queue->last ? &queue->last->after : &queue->first) = c;
    queue->last = c;
}

static void leave(Connection *c) {
    if (!c->queue) return;
    *(c->before ? &c->before->after : &c->queue->first) = c->after;
    *(c->after ? &c->after->before : &c->queue->last) = c->before;
    c->queue = NULL;
}

static void watch(Connection *c, int how, unsigned events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(epoll, how, c->fd, &event)) die("epoll_ctl");
}

static void drop(Connection *c) {
    if (c->queue) {
        record.aborted++;
        record.open_streams--;
        free(c->stream.writes);
    }
    leave(c);
    close(c->fd);
    free(c->in.at);
    free(c->out.at);
    free(c->tail.at);
    free(c);
}

/* Send both pieces; keep what the socket does not take. A broken connection is found by the next read. */
static void send_two(Connection *c, const char *one, size_t size, const char *two, size_t more) {
    ssize_t done = 0;
    if (c->out.size == c->sent) {
        struct iovec pieces[] = {{(void *)one, size}, {(void *)two, more}};
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = more ? 2 : 1};
        done = sendmsg(c->fd, &message, MSG_NOSIGNAL);
        if (done < 0 && errno != EAGAIN) return;
        if (done < 0) done = 0;
        if ((size_t)done == size + more) return;
        watch(c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
    if ((size_t)done < size) append(&c->out, one + done, size - done);
    size_t skip = (size_t)done > size ? done - size : 0;
    append(&c->out, two + skip, more - skip);
}

static void send_rest(Connection *c) {
    ssize_t done = send(c->fd, c->out.at + c->sent, c->out.size - c->sent, MSG_NOSIGNAL);
    if (done > 0) c->sent += done;
    if (c->sent < c->out.size && done >= 0) return;
    c->out.size = c->sent = 0;
    watch(c, EPOLL_CTL_MOD, EPOLLIN);
}

static void reply(Connection *c, const char *status, const char *body, size_t size) {
    Bytes text = {0};
    print(&text, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", status, size);
    send_two(c, text.at, text.size, body, size);
    free(text.at);
}

/* -- streams */

static void emit(Connection *c) {
    Stream *s = &c->stream;
    leave(c);
    s->writes[s->count] = now();
    int k = s->count++;
    bool last = manner.burst || s->count == s->tokens;
    size_t from = k ? c->answer->end[k - 1] : 0, to = c->answer->end[last ? s->tokens - 1 : k];
    send_two(c, c->answer->bytes.at + from, to - from, c->tail.at, last ? c->tail.size : 0);
    if (last) {
        record.open_streams--;
        keep(*s);
        *s = (Stream){0};
    } else {
        c->due += manner.itl;
        enter(&going, c);
    }
}

/* The value of a key in JSON, by a plain search: an escaped key inside a text does not look the same. */
static const char *value_of(const char *json, const char *key) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    for (const char *at = json; (at = strstr(at, quoted));) {
        at += strlen(quoted);
        const char *value = at + strspn(at, " ");
        if (*value == ':') return value + 1 + strspn(value + 1, " ");
    }
    return "";
}

static int words(const char *text) {
    int count = 0;
    bool inside = false;
    for (text++; *text && *text != '"'; text++) {
        if (*text == '\\' && text[1]) text++;
        if (*text != ' ' && !inside) count++;
        inside = *text != ' ';
    }
    return count;
}

static void start(Connection *c, bool chat, const char *body) {
    double received = now();
    int tokens = atoi(value_of(body, chat ? "max_completion_tokens" : "max_tokens"));
    if (tokens < 1 && chat) tokens = atoi(value_of(body, "max_tokens"));
    if (tokens < 1 || tokens > MAX_TOKENS || *value_of(body, "stream") != 't' || c->queue) {
        static const char why[] = "{\"error\":\"one stream at a time, with max_tokens from 1 to 1048576\"}";
        reply(c, "400 Bad Request", why, sizeof why - 1);
        return;
    }
    if (!record.requests++) record.first_received = received;
    if (++record.open_streams > record.most_streams) record.most_streams = record.open_streams;
    c->answer = answer(chat, tokens);
    c->stream = (Stream){received, must(malloc((manner.burst ? 1 : tokens) * sizeof(double))), 0, tokens};
    c->tail.size = 0;
    if (*value_of(body, "include_usage") == 't') {
        char json[512];
        int asked = words(chat && *value_of(body, "content") == '[' ? value_of(body, "text")
                                                                   : value_of(body, chat ? "content" : "prompt"));
        snprintf(json, sizeof json,
                 "{%s,\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d,\"completion_tokens\":%d}}",
                 preamble(chat), asked, asked + tokens, tokens);
        append_event(&c->tail, json);
    }
    append(&c->tail, END, sizeof END - 1);
    c->due = received + manner.ttft;
    enter(&starting, c);
}

/* -- requests */

static void control(Connection *c, const char *query) {
    forget();
    const char *burst = strstr(query, "burst="), *ttft = strstr(query, "ttft_ms="), *itl = strstr(query, "itl_ms=");
    manner.burst = burst && atoi(burst + 6);
    manner.ttft = ttft ? atof(ttft + 8) / 1000 : 0;
    manner.itl = itl ? atof(itl + 7) / 1000 : 0;
    reply(c, "200 OK", "{}", 2);
}

static void route(Connection *c, const char *line, const char *body) {
    static const char models[] = "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\","
                                 "\"created\":1764547200,\"owned_by\":\"mock\",\"max_model_len\":1048576}]}";
    if (!strncmp(line, "POST /v1/completions ", 21)) start(c, false, body);
    else if (!strncmp(line, "POST /v1/chat/completions ", 26)) start(c, true, body);
    else if (!strncmp(line, "GET /v1/models ", 15)) reply(c, "200 OK", models, sizeof models - 1);
    else if (!strncmp(line, "GET /health ", 12)) reply(c, "200 OK", "", 0);
    else if (!strncmp(line, "GET /control", 12)) control(c, line);
    else if (!strncmp(line, "GET /record ", 12)) {
        Bytes text = recorded();
        reply(c, "200 OK", text.at, text.size);
        free(text.at);
    } else reply(c, "404 Not Found", "{}", 2);
}

/* Take one request off the front of what has come. False: it is not whole yet. */
static bool next_request(Connection *c) {
    char *at = c->in.at, *blank = c->in.size ? memmem(at, c->in.size, "\r\n\r\n", 4) : NULL;
    if (!blank) return false;
    *blank = 0;
    char *length = strcasestr(at, "\r\ncontent-length:"), *body = blank + 4;
    size_t size = length ? strtoul(length + 17, NULL, 10) : 0, head = body - at;
    if (c->in.size - head < size) {
        *blank = '\r';
        return false;
    }
    char kept = size + head < c->in.size ? body[size] : 0;
    append(&c->in, "", 1); /* room for an end of text after the body */
    c->in.size--;
    at = c->in.at, body = at + head;
    body[size] = 0;
    route(c, at, body);
    body[size] = kept;
    c->in.size -= head + size;
    memmove(c->in.at, body + size, c->in.size);
    return true;
}

static bool take(Connection *c) {
    static char data[READ_SIZE];
    ssize_t size = recv(c->fd, data, sizeof data, 0);
    if (size < 0 && errno == EAGAIN) return true;
    if (size <= 0) return false;
    append(&c->in, data, size);
    while (next_request(c));
    return true;
}

static void accept_all(int listener) {
    const int one = 1, buffer = 1 << 20;
    for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
        Connection *c = must(calloc(1, sizeof *c));
        c->fd = fd;
        record.connections++;
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }
}

/* -- the loop */

static Connection *soonest(void) {
    if (!starting.first) return going.first;
    if (!going.first) return starting.first;
    return starting.first->due <= going.first->due ? starting.first : going.first;
}

static void emit_due(void) {
    Connection *c;
    for (int left = WRITES_BETWEEN_READS; left && (c = soonest()) && c->due <= now(); left--) emit(c);
}

static void wait_for_events(int listener) {
    struct epoll_event events[512];
    Connection *c = soonest();
    double left = c ? c->due - now() : 1;
    if (left < 0) left = 0;
    struct timespec wait = {(time_t)left, (long)((left - (time_t)left) * 1e9)};
    int count = epoll_pwait2(epoll, events, 512, &wait, NULL);
    for (int i = 0; i < count; i++) {
        c = events[i].data.ptr;
        if (!c) accept_all(listener);
        else {
            if (events[i].events & EPOLLOUT) send_rest(c);
            if (events[i].events & ~EPOLLOUT && !take(c)) drop(c);
        }
    }
}

static int listen_at(int port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int one = 1;
    struct sockaddr_in address = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
    socklen_t size = sizeof address;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (void *)&address, size) || listen(listener, 4096)) die("listen");
    if (getsockname(listener, (void *)&address, &size)) die("getsockname");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

int main(int count, char **arguments) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (count > 2) {
        cpu_set_t cores;
        CPU_ZERO(&cores);
        CPU_SET(atoi(arguments[2]), &cores);
        if (sched_setaffinity(0, sizeof cores, &cores)) die("core");
    }
    int listener = listen_at(count > 1 ? atoi(arguments[1]) : 0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if ((epoll = epoll_create1(0)) < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) die("epoll");
    for (;;) {
        wait_for_events(listener);
        emit_due();
    }
}
