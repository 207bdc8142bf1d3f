// The parts of a training step on a CPU that PyTorch's operators do slowly: views, dropout masks, and the encoder's blocks
// (the trunk: 3x3 convolution of stride 2, batch norm over the batch, dropout, ReLU), forward and backward.
//
// Four ideas make it fast.
//  - A vector holds channels of one pixel, as many as a register: 16 with AVX-512, 8 with AVX2. A tile of output pixels stays
//    in registers.
//  - Runs are the outermost loop and images the next, so that an image's maps never leave the first cache. Norm, mask and
//    ReLU happen where the next convolution reads. Of each block but the first, the convolution's output is kept.
//  - The first block is never stored: its output is linear in the image, so its batch statistics, and the gradient through
//    them, follow from the covariance of the images' patches, which all runs of a stream share (`moments`; trunk.py).
//  - A digit is gray times a colour, so its first convolution has 9 taps, not 27.
//
// The unit of work is a chunk of CHUNK images of one run. What is summed over images is summed within a chunk first, and
// chunks are added in order: the same bits for any number of threads. Nothing here allocates what outlives a call.
//
// Compiled by native.py with WIDTHS, the channels of each block, all multiples of 16.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

// No name but the interface's leaves this library: two of them, for other widths, must not share a thread's buffers.
#pragma GCC visibility push(hidden)

// LANES: channels of a vector. TILE: accumulators, of 32 or 16 registers. Bits: which of a vector's units are kept.
#ifdef __AVX512F__
constexpr int LANES = 16, TILE = 28;
typedef uint16_t Bits;
#else
constexpr int LANES = 8, TILE = 14;
typedef uint8_t Bits;
#endif
typedef float V __attribute__((vector_size(4 * LANES)));
typedef float U __attribute__((vector_size(4 * LANES), aligned(4), may_alias));  // a vector anywhere in memory
typedef double D __attribute__((vector_size(8 * LANES)));

#define INLINE inline __attribute__((always_inline))
#define LAMBDA __attribute__((always_inline))
#define INTERFACE extern "C" __attribute__((visibility("default")))

constexpr int CHUNK = 64, IMAGE = 28, TAPS = 9;
constexpr int WIDTH[] = {WIDTHS};
constexpr int BLOCKS = sizeof(WIDTH) / sizeof(int);
constexpr int side(int block) { return block < 0 ? IMAGE : (side(block - 1) + 1) / 2; }  // of the map that leaves it
constexpr int padded(int block) { return 2 * side(block) + 1; }  // of the map that enters it, with its border
constexpr int area(int block) { return side(block) * side(block) * WIDTH[block]; }
constexpr int least(int a, int b) { return a < b ? a : b; }
static_assert(BLOCKS >= 2 && side(BLOCKS - 1) >= 2, "two to four blocks");

template <class F, int... i> INLINE void each(std::integer_sequence<int, i...>, F f) {
  (f(std::integral_constant<int, i>()), ...);
}
template <int N, class F> INLINE void each(F f) { each(std::make_integer_sequence<int, N>(), f); }  // f(0) ... f(N - 1), unrolled

INLINE V load(const float* p) { return *(const U*)p; }
INLINE void store(float* p, V x) { *(U*)p = x; }
INLINE V splat(float x) { return x - V{}; }
#ifdef __AVX512F__
INLINE V larger(V x, V y) { return _mm512_max_ps(x, y); }  // y where one of them is not a number
INLINE V smaller(V x, V y) { return _mm512_min_ps(x, y); }
INLINE V floor_of(V x) { return _mm512_floor_ps(x); }
INLINE float sum_of(V x) { return _mm512_reduce_add_ps(x); }
INLINE V relu(V x, Bits kept) { return _mm512_maskz_max_ps(kept, V{}, x); }
INLINE uint16_t at_least(__m256i x, __m256i y) { return _mm256_cmpge_epu16_mask(x, y); }
#else
typedef int32_t I __attribute__((vector_size(4 * LANES)));
INLINE V larger(V x, V y) { return _mm256_max_ps(x, y); }
INLINE V smaller(V x, V y) { return _mm256_min_ps(x, y); }
INLINE V floor_of(V x) { return _mm256_floor_ps(x); }
INLINE float sum_of(V x) {
  float total = 0;
  for (int i = 0; i < LANES; i++) total += x[i];
  return total;
}
INLINE V relu(V x, Bits kept) {
  const I bit = {1, 2, 4, 8, 16, 32, 64, 128}, asked = bit & kept;
  return (V)((I)larger(V{}, x) & (asked == bit));
}
INLINE uint16_t at_least(__m256i x, __m256i y) {
  const __m256i which = _mm256_cmpeq_epi16(_mm256_max_epu16(x, y), x);
  return _mm_movemask_epi8(_mm_packs_epi16(_mm256_castsi256_si128(which), _mm256_extracti128_si256(which, 1)));
}
#endif
INLINE V relu(V x) { return larger(V{}, x); }  // keeps what is not a number
INLINE V where_positive(V z, V x) { return z > 0 ? x : V{}; }
INLINE void add(double* total, V x) {
  const D wide = __builtin_convertvector(x, D);
  for (int i = 0; i < LANES; i++) total[i] += wide[i];
}

// --- who does what -------------------------------------------------------------------------------------------------------

// OpenMP's way to run work(data) on a team of threads. It is PyTorch's own pool, if that was found: a second one would fight
// with it for the cores, and a new thread may wait for milliseconds until it runs.
typedef void (*Team)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
Team team = nullptr;

// f(0) ... f(count - 1), shared out among threads as they come free. False if memory ran out: nothing may be thrown from here.
template <class F> bool parallel(int threads, int64_t count, F f) {
  std::atomic<int64_t> next{0};
  std::atomic<bool> done{true};
  auto work = [&] {
    try {
      for (int64_t i; (i = next++) < count;) f(i);
    } catch (...) {
      done = false;
    }
  };
  if (threads <= 1 || count <= 1) {
    work();
    return done;
  }
  threads = least(threads, count < 1024 ? int(count) : 1024);
  if (team) {
    team([](void* data) { (*(decltype(work)*)data)(); }, &work, threads, 0);
    return done;
  }
  std::vector<std::thread> others;
  for (int t = 1; t < threads; t++) {
    try {
      others.emplace_back(work);
    } catch (...) {  // no more threads to be had: those there are do it all
      break;
    }
  }
  work();
  for (auto& other : others) other.join();
  return done;
}

// Passes over all chunks of all runs; `finish` adds up a pass of one run before its next one. False if memory ran out.
template <class Pass, class Finish> bool in_passes(int passes, int64_t runs, int64_t chunks, int threads, Pass pass, Finish finish) {
  if (runs % threads == 0 || runs > 4 * threads)  // whole runs, whose maps stay in a core's caches
    return parallel(threads, runs, [&](int64_t r) {
      for (int p = 0; p < passes; p++) {
        for (int64_t c = 0; c < chunks; c++) pass(p, r, c);
        finish(p, r);
      }
    });
  for (int p = 0; p < passes; p++)
    if (!parallel(threads, runs * chunks, [&](int64_t i) { pass(p, i / chunks, i % chunks); }) ||
        !parallel(threads, runs, [&](int64_t r) { finish(p, r); }))
      return false;
  return true;
}

// --- convolutions of one image ----------------------------------------------------------------------------------------------

// ROWS x COLS output pixels, LANES of COUT channels: in [.][SPAN][CIN] with its border, w [9][CIN][COUT]; done(row, col, v).
template <int ROWS, int COLS, int CIN, int COUT, int SPAN, class Done>
INLINE void tile(const float* in, const float* w, V start, Done done) {
  V acc[ROWS * COLS];
  each<ROWS * COLS>([&](auto i) LAMBDA { acc[i] = start; });
  for (int ky = 0; ky < 3; ky++)
    for (int kx = 0; kx < 3; kx++)
      for (int ci = 0; ci < CIN; ci++, w += COUT) {
        const float* x = in + (ky * SPAN + kx) * CIN + ci;
        __asm__("" : "+r"(x));  // or a compiler would keep what neighbouring taps share, in registers that there are not
        const V k = load(w);
        each<ROWS * COLS>([&](auto i) LAMBDA { acc[i] += k * x[2 * (i / COLS * SPAN + i % COLS) * CIN]; });
      }
  each<ROWS * COLS>([&](auto i) LAMBDA { done(i / COLS, i % COLS, acc[i]); });
}

// A whole map of SIDE x SIDE pixels, LANES of COUT channels.
template <int SIDE, int CIN, int COUT, class Done>
INLINE void convolve(const float* in, const float* w, V start, Done done) {
  constexpr int SPAN = 2 * SIDE + 1, ROWS = least(SIDE, TILE / SIDE), REST = SIDE % ROWS;
  for (int y = 0; y + ROWS <= SIDE; y += ROWS)
    tile<ROWS, SIDE, CIN, COUT, SPAN>(in + 2 * y * SPAN * CIN, w, start, [&](int r, int c, V v) LAMBDA { done(y + r, c, v); });
  if constexpr (REST > 0)
    tile<REST, SIDE, CIN, COUT, SPAN>(in + 2 * (SIDE - REST) * SPAN * CIN, w, start,
                                      [&](int r, int c, V v) LAMBDA { done(SIDE - REST + r, c, v); });
}

// dw [9][CIN][COUT] += gradient of the weights, from the input with its border and dy [SIDE][DSPAN][COUT]; FROM: the input's side.
template <int FROM, int SIDE, int CIN, int COUT, int DSPAN>
INLINE void weight_gradient(const float* in, const float* dy, float* dw) {
  constexpr int SPAN = 2 * SIDE + 1;
  constexpr int T = CIN * TAPS < TILE ? TAPS : CIN * 3 < TILE ? 3 : 1;  // few channels: all taps at once, or a row of them
  constexpr int C = least(CIN, LANES), N = T * C;
  for (int tap = 0; tap < TAPS; tap += T)
    for (int ci = 0; ci < CIN; ci += C)
      for (int co = 0; co < COUT; co += LANES) {
        float* to = dw + (tap * CIN + ci) * COUT + co;
        V acc[N];
        each<N>([&](auto i) LAMBDA { acc[i] = load(to + i * COUT); });
        const float* base = in + (tap / 3 * SPAN + tap % 3) * CIN + ci;
        // Where a tap sees nothing but the border there is nothing to add.
        constexpr bool BELOW = FROM < 2 * SIDE;
        const int top = T < TAPS && tap / 3 == 0, bottom = SIDE - (T < TAPS && BELOW && tap / 3 == 2);
        const int left = T == 1 && tap % 3 == 0, right = SIDE - (T == 1 && BELOW && tap % 3 == 2);
        for (int y = top; y < bottom; y++)
          for (int x = left; x < right; x++) {
            const float* p = base + 2 * (y * SPAN + x) * CIN;
            const V g = load(dy + (y * DSPAN + x) * COUT + co);
            each<N>([&](auto i) LAMBDA {
              constexpr int t = i / C;
              acc[i] += g * p[(t / 3 * SPAN + t % 3) * CIN + i % C];
            });
          }
        each<N>([&](auto i) LAMBDA { store(to + i * COUT, acc[i]); });
      }
}

// Gradient of the input, LANES of CIN channels, at pixels of one parity (odd rows with the border counted see kernel row 1, even
// ones rows 2 and 0): dy [.][SIDE + 1][COUT] ends with a row and a column of zeros, w [9][COUT][CIN]. done(row, col, v).
template <int ROWS, int COLS, bool ODD_Y, bool ODD_X, int CIN, int COUT, int SIDE, class Done>
INLINE void data_tile(int first, const float* dy, const float* w, Done done) {
  V acc[ROWS * COLS];
  each<ROWS * COLS>([&](auto i) LAMBDA { acc[i] = V{}; });
  for (int a = 0; a < (ODD_Y ? 1 : 2); a++)
    for (int b = 0; b < (ODD_X ? 1 : 2); b++) {
      const int ky = ODD_Y ? 1 : 2 - 2 * a, kx = ODD_X ? 1 : 2 - 2 * b;
      const float* k = w + (ky * 3 + kx) * COUT * CIN;
      const float* g = dy + ((first + a) * (SIDE + 1) + b) * COUT;
      for (int co = 0; co < COUT; co++, k += CIN, g++) {
        const V weight = load(k);
        each<ROWS * COLS>([&](auto i) LAMBDA { acc[i] += weight * g[(i / COLS * (SIDE + 1) + i % COLS) * COUT]; });
      }
    }
  each<ROWS * COLS>([&](auto i) LAMBDA {
    done(2 * (first + i / COLS) + (ODD_Y ? 0 : 1), 2 * (i % COLS) + (ODD_X ? 0 : 1), acc[i]);
  });
}

template <bool ODD_Y, bool ODD_X, int FROM, int SIDE, int CIN, int COUT, class Done>
INLINE void data_parity(const float* dy, const float* w, Done done) {
  constexpr int HIGH = ODD_Y ? (FROM + 1) / 2 : FROM / 2, WIDE = ODD_X ? (FROM + 1) / 2 : FROM / 2;
  constexpr int ROWS = least(HIGH, TILE / WIDE), REST = HIGH % ROWS;
  for (int y = 0; y + ROWS <= HIGH; y += ROWS) data_tile<ROWS, WIDE, ODD_Y, ODD_X, CIN, COUT, SIDE>(y, dy, w, done);
  if constexpr (REST > 0) data_tile<REST, WIDE, ODD_Y, ODD_X, CIN, COUT, SIDE>(HIGH - REST, dy, w, done);
}

template <int FROM, int SIDE, int CIN, int COUT, class Done>
INLINE void data_gradient(const float* dy, const float* w, Done done) {
  data_parity<true, true, FROM, SIDE, CIN, COUT>(dy, w, done);
  data_parity<true, false, FROM, SIDE, CIN, COUT>(dy, w, done);
  data_parity<false, true, FROM, SIDE, CIN, COUT>(dy, w, done);
  data_parity<false, false, FROM, SIDE, CIN, COUT>(dy, w, done);
}

// --- the trunk ------------------------------------------------------------------------------------------------------------

// What a call is given; all arrays are dense. Of block b, `map` is side(b)^2 * WIDTH[b] floats, channels last.
struct Call {
  int64_t runs, images;
  int32_t threads, colors;            // colors: 1 for gray images and a colour each, 3 for images in colour
  const float* input;                 // [images][57 / 2 ...]: 29 x 29 x colors, with a border above and to the left
  const float* tint;                  // [images][3] if colors == 1
  const Bits* mask[4];                // of each block [images][side^2][width / 16], a bit set where a unit is kept
  const float* weight[4];             // [runs][9][in][out]; the first scaled by its norm (in evaluation all are)
  const float* turned[4];             // the same [runs][9][out][in], not of the first block; backward only
  const float* shift[4];              // [runs][out], added to a scaled convolution: of the first block, in evaluation of all
  const float *gamma[4], *beta[4];    // [runs][out], of all but the first block
  float* map[4];                      // [runs][images][map]: convolutions of all but the first block
  float* norm[4];                     // [runs][5][out]: scale, shift, mean, 1 / deviation, variance; not of the first block
  float* out;                         // [runs][images][map of the last block]
  const float* dout;                  // its gradient
  float* dmap[4];                     // [runs][images][map]: scratch for blocks between the first and the last
  double* sums;                       // [runs][chunks][2 * widest]: scratch
  float* partial;                     // [runs][chunks][gradients]: scratch, backward only
  float* dweight[4];                  // [runs][9][in][out]; of the first: sums over images of patch times gradient
  float *dgamma[4], *dbeta[4];        // [runs][out]; of the first only dbeta, the sum of gradients
};

constexpr int widest() {
  int most = 0;
  for (int w : WIDTH) most = most > w ? most : w;
  return most;
}
// Where a block's weights' gradient stands among the partial ones.
constexpr int64_t gradients(int before) {
  int64_t total = 0;
  for (int b = 0; b < before; b++) total += int64_t(TAPS) * (b == 0 ? 3 : WIDTH[b - 1]) * WIDTH[b];
  return total;
}

struct alignas(64) Buffers {
  float image_weights[TAPS * 3 * WIDTH[0]], first[padded(1) * padded(1) * WIDTH[0]], dfirst[area(0)], dtaps[TAPS * WIDTH[0]];
  float between[BLOCKS > 2 ? BLOCKS - 2 : 1][padded(2) * padded(2) * widest()];  // what enters blocks 2, 3
  float dy[BLOCKS][(side(1) + 1) * (side(1) + 1) * widest()];
  float* entering(int block) { return block == 1 ? first : between[block - 2]; }
};
INLINE Buffers& buffers() {  // one a thread for as long as it lives; the borders stay zero, and all else is written before it is read
  thread_local std::unique_ptr<Buffers> mine;
  if (!mine) mine.reset(new Buffers());
  return *mine;
}

// The first block of one image, into m.first.
template <int COLORS> INLINE void first_block(const Call& call, int64_t r, int64_t b, Buffers& m) {
  constexpr int W = WIDTH[0], S = side(0), SPAN = padded(0);
  const float *image = call.input + b * SPAN * SPAN * COLORS, *w = call.weight[0] + r * TAPS * 3 * W;
  if (COLORS == 1) {
    const float* tint = call.tint + b * 3;
    for (int t = 0; t < TAPS; t++)
      for (int co = 0; co < W; co += LANES) {
        V k = {};
        for (int c = 0; c < 3; c++) k += tint[c] * load(w + (t * 3 + c) * W + co);
        store(m.image_weights + t * W + co, k);
      }
    w = m.image_weights;
  }
  const Bits* mask = call.mask[0] + b * S * S * (W / LANES);
  for (int co = 0; co < W; co += LANES)
    convolve<S, COLORS, W>(image, w + co, load(call.shift[0] + r * W + co), [&](int y, int x, V v) LAMBDA {
      store(m.first + ((y + 1) * padded(1) + x + 1) * W + co, relu(v, mask[(y * S + x) * (W / LANES) + co / LANES]));
    });
}

// What enters `BLOCK` + 1: the norm of a convolution, mask and ReLU, into m.
template <int BLOCK> INLINE void activate(const Call& call, int64_t r, int64_t b, Buffers& m) {
  constexpr int W = WIDTH[BLOCK], S = side(BLOCK);
  const float *y = call.map[BLOCK] + (r * call.images + b) * area(BLOCK), *norm = call.norm[BLOCK] + r * 5 * W;
  const Bits* mask = call.mask[BLOCK] + b * area(BLOCK) / LANES;
  float* to = m.entering(BLOCK + 1);
  for (int row = 0; row < S; row++)
    for (int col = 0; col < S; col++)
      for (int co = 0; co < W; co += LANES) {
        const int i = (row * S + col) * W + co;
        store(to + ((row + 1) * padded(BLOCK + 1) + col + 1) * W + co,
              relu(load(y + i) * load(norm + co) + load(norm + W + co), mask[i / LANES]));
      }
}

template <int BLOCK, int COLORS> INLINE void enter(const Call& call, int64_t r, int64_t b, Buffers& m) {
  if constexpr (BLOCK == 1) first_block<COLORS>(call, r, b, m);
  else activate<BLOCK - 1>(call, r, b, m);
}

INLINE double* sums_of(const Call& call, int64_t r, int64_t chunk) {
  const int64_t chunks = (call.images + CHUNK - 1) / CHUNK;
  return call.sums + (r * chunks + chunk) * 2 * widest();
}

// Convolve a chunk and sum its outputs and their squares.
template <int BLOCK, int COLORS> void forward_chunk(const Call& call, int64_t r, int64_t chunk) {
  constexpr int W = WIDTH[BLOCK], BEFORE = WIDTH[BLOCK - 1], S = side(BLOCK);
  Buffers& m = buffers();
  double* total = sums_of(call, r, chunk);
  std::memset(total, 0, 2 * W * sizeof(double));
  const float* w = call.weight[BLOCK] + r * TAPS * BEFORE * W;
  for (int64_t b = chunk * CHUNK; b < call.images && b < (chunk + 1) * CHUNK; b++) {
    enter<BLOCK, COLORS>(call, r, b, m);
    float* y = call.map[BLOCK] + (r * call.images + b) * area(BLOCK);
    for (int co = 0; co < W; co += LANES) {
      V sum = {}, square = {};
      convolve<S, BEFORE, W>(m.entering(BLOCK), w + co, V{}, [&](int row, int col, V v) LAMBDA {
        store(y + (row * S + col) * W + co, v);
        sum += v, square += v * v;
      });
      add(total + co, sum), add(total + W + co, square);
    }
  }
}

// Batch norm from its sums: what multiplies a channel, what is then added, mean, one over deviation, variance.
void normalise(const Call& call, int block, int64_t r) {
  const int W = WIDTH[block];
  const double n = double(call.images) * side(block) * side(block);
  const float *gamma = call.gamma[block] + r * W, *beta = call.beta[block] + r * W;
  float* to = call.norm[block] + r * 5 * W;
  for (int c = 0; c < W; c++) {
    double sum = 0, square = 0;
    for (int64_t chunk = 0; chunk * CHUNK < call.images; chunk++)
      sum += sums_of(call, r, chunk)[c], square += sums_of(call, r, chunk)[W + c];
    const double mean = sum / n, spread = square / n - mean * mean, var = spread < 0 ? 0 : spread;
    const double inverse = 1 / std::sqrt(var + 1e-5), scale = gamma[c] * inverse;
    to[c] = scale, to[W + c] = beta[c] - mean * scale, to[2 * W + c] = mean, to[3 * W + c] = inverse, to[4 * W + c] = var;
  }
}

// The last block's activation.
void output_chunk(const Call& call, int64_t r, int64_t chunk) {
  constexpr int LAST = BLOCKS - 1, W = WIDTH[LAST];
  const float* norm = call.norm[LAST] + r * 5 * W;
  for (int64_t b = chunk * CHUNK; b < call.images && b < (chunk + 1) * CHUNK; b++) {
    const int64_t start = (r * call.images + b) * area(LAST);
    const Bits* mask = call.mask[LAST] + b * area(LAST) / LANES;
    for (int i = 0; i < area(LAST); i += LANES) {
      const V z = load(call.map[LAST] + start + i) * load(norm + i % W) + load(norm + W + i % W);
      store(call.out + start + i, relu(z, mask[i / LANES]));
    }
  }
}

template <int COLORS> bool forward(const Call& call) {
  return in_passes(BLOCKS, call.runs, (call.images + CHUNK - 1) / CHUNK, call.threads,
                   [&](int pass, int64_t r, int64_t chunk) {
                     each<BLOCKS - 1>([&](auto b) { if (pass == b) forward_chunk<b + 1, COLORS>(call, r, chunk); });
                     if (pass == BLOCKS - 1) output_chunk(call, r, chunk);
                   },
                   [&](int pass, int64_t r) { if (pass < BLOCKS - 1) normalise(call, pass + 1, r); });
}

// In evaluation a norm is a scale and a shift known beforehand, so that an image goes through all blocks at once.
template <int COLORS> void infer_chunk(const Call& call, int64_t r, int64_t chunk) {
  Buffers& m = buffers();
  for (int64_t image = chunk * CHUNK; image < call.images && image < (chunk + 1) * CHUNK; image++) {
    first_block<COLORS>(call, r, image, m);
    each<BLOCKS - 1>([&](auto i) LAMBDA {
      constexpr int B = i + 1, W = WIDTH[B], S = side(B), SPAN = padded(B + 1);
      const float *w = call.weight[B] + r * TAPS * WIDTH[B - 1] * W, *shift = call.shift[B] + r * W;
      for (int co = 0; co < W; co += LANES)
        convolve<S, WIDTH[B - 1], W>(m.entering(B), w + co, load(shift + co), [&](int row, int col, V v) LAMBDA {
          if constexpr (B < BLOCKS - 1) store(m.entering(B + 1) + ((row + 1) * SPAN + col + 1) * W + co, relu(v));
          else store(call.out + (r * call.images + image) * area(B) + (row * S + col) * W + co, relu(v));
        });
    });
  }
}

// The gradient through a batch norm is a * g + d * y + e, from the sums over the batch of g and of g * (y - mean).
struct Through { float a, d, e; };
INLINE Through through_norm(const Call& call, int block, int64_t r, int c) {
  const int W = WIDTH[block];
  const float* norm = call.norm[block] + r * 5 * W + c;
  const double n = double(call.images) * side(block) * side(block);
  const double scale = norm[0], mean = norm[2 * W], inverse = norm[3 * W];
  const double g = call.dbeta[block][r * W + c], gy = call.dgamma[block][r * W + c];  // the latter is g * (y - mean) * inverse
  const double d = -scale * inverse * gy / n;
  return {float(scale), float(d), float(-scale * g / n - d * mean)};
}

// Sums of the last block's gradients.
void top_chunk(const Call& call, int64_t r, int64_t chunk) {
  constexpr int LAST = BLOCKS - 1, W = WIDTH[LAST];
  const float* mean = call.norm[LAST] + (r * 5 + 2) * W;
  double* total = sums_of(call, r, chunk);
  std::memset(total, 0, 2 * W * sizeof(double));
  for (int64_t b = chunk * CHUNK; b < call.images && b < (chunk + 1) * CHUNK; b++) {
    const int64_t start = (r * call.images + b) * area(LAST);
    for (int co = 0; co < W; co += LANES) {
      V sum = {}, along = {};
      for (int i = co; i < area(LAST); i += W) {
        const V g = where_positive(load(call.out + start + i), load(call.dout + start + i));
        sum += g, along += g * (load(call.map[LAST] + start + i) - load(mean + co));
      }
      add(total + co, sum), add(total + W + co, along);
    }
  }
}

// A chunk back through `BLOCK`: its weights' gradient, and the gradient that leaves the block before it.
template <int BLOCK, int COLORS> void backward_chunk(const Call& call, int64_t r, int64_t chunk) {
  constexpr int W = WIDTH[BLOCK], BEFORE = WIDTH[BLOCK - 1], S = side(BLOCK), FROM = side(BLOCK - 1);
  constexpr bool LAST = BLOCK == BLOCKS - 1;
  Buffers& m = buffers();
  const int64_t chunks = (call.images + CHUNK - 1) / CHUNK;
  double* total = sums_of(call, r, chunk);
  std::memset(total, 0, 2 * BEFORE * sizeof(double));
  float* partial = call.partial + (r * chunks + chunk) * gradients(BLOCKS);
  float *dw = partial + gradients(BLOCK), *corr = partial;
  std::memset(dw, 0, TAPS * BEFORE * W * sizeof(float));
  if (BLOCK == 1) std::memset(corr, 0, TAPS * 3 * BEFORE * sizeof(float));
  alignas(64) float a[W], d[W], e[W];
  for (int c = 0; c < W; c++) {
    const Through t = through_norm(call, BLOCK, r, c);
    a[c] = t.a, d[c] = t.d, e[c] = t.e;
  }
  const float* turned = call.turned[BLOCK] + r * TAPS * BEFORE * W;
  float* dy = m.dy[BLOCK];
  for (int64_t b = chunk * CHUNK; b < call.images && b < (chunk + 1) * CHUNK; b++) {
    const int64_t start = (r * call.images + b) * area(BLOCK), from = (r * call.images + b) * area(BLOCK - 1);
    const float* y = call.map[BLOCK] + start;
    const float* g = LAST ? call.dout + start : call.dmap[BLOCK] + start;
    for (int row = 0; row < S; row++)
      for (int col = 0; col < S; col++)
        for (int co = 0; co < W; co += LANES) {
          const int i = (row * S + col) * W + co;
          const V up = LAST ? where_positive(load(call.out + start + i), load(g + i)) : load(g + i);
          store(dy + (row * (S + 1) + col) * W + co, load(a + co) * up + load(d + co) * load(y + i) + load(e + co));
        }
    enter<BLOCK, COLORS>(call, r, b, m);
    const float* z = m.entering(BLOCK);
    weight_gradient<FROM, S, BEFORE, W, S + 1>(z, dy, dw);
    for (int ci = 0; ci < BEFORE; ci += LANES) {
      V sum = {}, along = {};
      if constexpr (BLOCK == 1) {
        data_gradient<FROM, S, BEFORE, W>(dy, turned + ci, [&](int row, int col, V v) LAMBDA {
          const V up = where_positive(load(z + ((row + 1) * padded(BLOCK) + col + 1) * BEFORE + ci), v);
          store(m.dfirst + (row * FROM + col) * BEFORE + ci, up);
          sum += up;
        });
      } else {
        const V mean = load(call.norm[BLOCK - 1] + (r * 5 + 2) * BEFORE + ci);
        const float* before = call.map[BLOCK - 1] + from + ci;
        float* to = call.dmap[BLOCK - 1] + from + ci;
        data_gradient<FROM, S, BEFORE, W>(dy, turned + ci, [&](int row, int col, V v) LAMBDA {
          const V up = where_positive(load(z + ((row + 1) * padded(BLOCK) + col + 1) * BEFORE + ci), v);
          const int i = (row * FROM + col) * BEFORE;
          store(to + i, up);
          sum += up, along += up * (load(before + i) - mean);
        });
      }
      add(total + ci, sum), add(total + BEFORE + ci, along);
    }
    if constexpr (BLOCK == 1) {
      const float* image = call.input + b * padded(0) * padded(0) * COLORS;
      if constexpr (COLORS == 3) {
        weight_gradient<IMAGE, FROM, 3, BEFORE, FROM>(image, m.dfirst, corr);
      } else {
        std::memset(m.dtaps, 0, sizeof m.dtaps);
        weight_gradient<IMAGE, FROM, 1, BEFORE, FROM>(image, m.dfirst, m.dtaps);
        for (int t = 0; t < TAPS; t++)
          for (int c = 0; c < 3; c++)
            for (int co = 0; co < BEFORE; co += LANES) {
              float* to = corr + (t * 3 + c) * BEFORE + co;
              store(to, load(to) + call.tint[b * 3 + c] * load(m.dtaps + t * BEFORE + co));
            }
      }
    }
  }
}

// Add up the chunks of a pass that went back into `block`: the sums of its gradients, and the weights' of the one after it.
void gather(const Call& call, int block, int64_t r) {
  const int64_t chunks = (call.images + CHUNK - 1) / CHUNK;
  const int W = WIDTH[block];
  for (int c = 0; c < W; c++) {
    double g = 0, gy = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) g += sums_of(call, r, chunk)[c], gy += sums_of(call, r, chunk)[W + c];
    call.dbeta[block][r * W + c] = g;
    if (block > 0) call.dgamma[block][r * W + c] = gy * call.norm[block][(r * 5 + 3) * W + c];
  }
  for (int b = block + 1; b >= (block == 0 ? 0 : block + 1) && b < BLOCKS; b--) {
    const int64_t size = gradients(b + 1) - gradients(b);
    float* to = call.dweight[b] + r * size;
    std::memset(to, 0, size * sizeof(float));
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const float* from = call.partial + (r * chunks + chunk) * gradients(BLOCKS) + gradients(b);
      for (int64_t i = 0; i < size; i++) to[i] += from[i];
    }
  }
}

template <int COLORS> bool backward(const Call& call) {
  return in_passes(BLOCKS, call.runs, (call.images + CHUNK - 1) / CHUNK, call.threads,
                   [&](int pass, int64_t r, int64_t chunk) {
                     if (pass == 0) top_chunk(call, r, chunk);
                     each<BLOCKS - 1>([&](auto b) { if (pass == BLOCKS - 1 - b) backward_chunk<b + 1, COLORS>(call, r, chunk); });
                   },
                   [&](int pass, int64_t r) { gather(call, BLOCKS - 1 - pass, r); });
}

// --- patches, masks, views -------------------------------------------------------------------------------------------------

// Sums over one chunk's pixels of each patch's outer product with (patch, 1): float64 [27][28], rows and columns (tap, colour).
template <int COLORS> void moments_chunk(const float* input, const float* tint, int64_t images, int64_t chunk, double* total) {
  constexpr int S = side(0), SPAN = padded(0), N = TAPS * COLORS, W = (N / LANES + 1) * LANES;
  std::unique_ptr<float[]> patch(new float[S * S * W]());
  alignas(64) float sums[N * W];
  for (int64_t b = chunk * CHUNK; b < images && b < (chunk + 1) * CHUNK; b++) {
    const float* image = input + b * SPAN * SPAN * COLORS;
    for (int y = 0; y < S; y++)
      for (int x = 0; x < S; x++) {
        float* to = patch.get() + (y * S + x) * W;
        for (int ky = 0; ky < 3; ky++)
          std::memcpy(to + ky * 3 * COLORS, image + ((2 * y + ky) * SPAN + 2 * x) * COLORS, 3 * COLORS * sizeof(float));
        to[N] = 1;
      }
    std::memset(sums, 0, sizeof sums);
    weight_gradient<IMAGE, S, COLORS, W, S>(image, patch.get(), sums);
    for (int t = 0; t < TAPS; t++)
      for (int c = 0; c < 3; c++) {
        double* row = total + (t * 3 + c) * 28;
        const float* from = sums + (COLORS == 3 ? t * 3 + c : t) * W;
        const double mine = COLORS == 3 ? 1 : tint[b * 3 + c];
        for (int u = 0; u < TAPS; u++)
          for (int d = 0; d < 3; d++) row[u * 3 + d] += COLORS == 3 ? from[u * 3 + d] : mine * tint[b * 3 + d] * from[u];
        row[27] += mine * from[N];
      }
  }
}

constexpr uint64_t MULTIPLIER0 = 0xD2E7470EE14C6C93, MULTIPLIER1 = 0xCA5A826395121157;  // Philox 4x64, Salmon et al. 2011
constexpr uint64_t WEYL0 = 0x9E3779B97F4A7C15, WEYL1 = 0xBB67AE8584CAA73B;

// Masks of units `first` to `last`, 16 to a word: bit j is set where 16-bit draw j of a block of the generator is >= below.
void mask_words(const uint64_t key[2], int64_t first, int64_t last, uint32_t below, uint16_t* out) {
  const __m256i least_kept = _mm256_set1_epi16(short(below));  // below < 65536: dropout is at most 0.95
  for (int64_t block = first; block < last; block++) {
    uint64_t a = uint64_t(block) + 1, b = 0, c = 0, d = 0, k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++, k0 += WEYL0, k1 += WEYL1) {
      const unsigned __int128 p = (unsigned __int128)a * MULTIPLIER0, q = (unsigned __int128)c * MULTIPLIER1;
      a = uint64_t(q >> 64) ^ b ^ k0, c = uint64_t(p >> 64) ^ d ^ k1, b = uint64_t(q), d = uint64_t(p);
    }
    out[block] = at_least(_mm256_set_epi64x(d, c, b, a), least_kept);
  }
}

// 32 values, in registers.
struct Row {
  V part[32 / LANES] = {};
  INLINE void add(float factor, const float* values) {
    each<32 / LANES>([&](auto i) LAMBDA { part[i] += factor * load(values + i * LANES); });
  }
  INLINE void store(float* to) {
    each<32 / LANES>([&](auto i) LAMBDA { ::store(to + i * LANES, part[i]); });
  }
};

// A matrix [28][32] that cuts `length` pixels at `start`, resizes them to 28 (bilinear, antialias) and blurs with `taps`.
void axis_matrix(float start, float length, const float* taps, int kernel, float (*to)[32]) {
  alignas(64) float resize[IMAGE][32] = {};
  const float step = length / IMAGE, support = step < 1 ? 1 : step;
  for (int i = 0; i < IMAGE; i++) {
    const float center = start + step * (i + 0.5f);
    float total = 0;
    for (int pixel = int(start); pixel < int(start + length); pixel++) {
      const float weight = 1 - std::fabs(pixel + 0.5f - center) / support;
      if (weight > 0) total += resize[i][pixel] = weight;
    }
    for (int pixel = 0; pixel < 32; pixel++) resize[i][pixel] /= total;
  }
  if (!taps) {
    std::memcpy(to, resize, sizeof resize);
    return;
  }
  for (int i = 0; i < IMAGE; i++) {
    Row sum;
    for (int t = 0; t < kernel; t++) {
      int from = std::abs(i + t - kernel / 2);  // reflected edges
      from = (IMAGE - 1) - std::abs(IMAGE - 1 - from);
      sum.add(taps[t], resize[from]);
    }
    sum.store(to[i]);
  }
}

// One view: rows @ gray @ columns^T, written with `border` zeros above and to the left of each image.
void view(const float* gray, const int64_t box[4], float sigma, int kernel, int border, float* out) {
  alignas(64) float rows[IMAGE][32], columns[IMAGE][32], turned[IMAGE][32] = {}, half[IMAGE][32];
  float taps[64], total = 0;
  for (int t = 0; t < kernel; t++) {
    const float at = (t - kernel / 2) / sigma;
    total += taps[t] = std::exp(-0.5f * at * at);
  }
  for (int t = 0; t < kernel; t++) taps[t] /= total;
  const int top = int(box[0]), left = int(box[1]), bottom = top + int(box[2]), right = left + int(box[3]);
  axis_matrix(top, box[2], sigma > 0 ? taps : nullptr, kernel, rows);
  axis_matrix(left, box[3], sigma > 0 ? taps : nullptr, kernel, columns);
  for (int j = 0; j < IMAGE; j++)
    for (int x = 0; x < IMAGE; x++) turned[x][j] = columns[j][x];
  for (int y = top; y < bottom; y++) {
    Row sum;
    for (int x = left; x < right; x++) sum.add(gray[y * IMAGE + x], turned[x]);
    sum.store(half[y]);
  }
  const int span = IMAGE + border;
  if (border) std::memset(out, 0, span * sizeof(float));
  for (int i = 0; i < IMAGE; i++) {
    alignas(64) float row[32];
    Row sum;
    for (int y = top; y < bottom; y++) sum.add(rows[i][y], half[y]);
    sum.store(row);
    float* to = out + (i + border) * span;
    if (border) to[0] = 0;
    std::memcpy(to + border, row, IMAGE * sizeof(float));
  }
}

// --- colour jitter -----------------------------------------------------------------------------------------------------------

INLINE V clamped(V x) { return larger(smaller(x, splat(1)), V{}); }
INLINE V blended(V x, V other, float factor) { return clamped(factor * x + (1 - factor) * other); }
INLINE V luma(V r, V g, V b) { return 0.2989f * r + 0.587f * g + 0.114f * b; }
INLINE V remainder(V x, float by) { return x - by * floor_of(x / by); }

// LANES pixels with their hue turned by `shift` of a circle.
INLINE void turn_hue(V& r, V& g, V& b, float shift) {
  const V value = larger(r, larger(g, b)), spread = value - smaller(r, smaller(g, b));
  const V safe = spread > 0 ? spread : splat(1);
  V hue = value == r ? (g - b) / safe : (value == g ? 2 + (b - r) / safe : 4 + (r - g) / safe);
  hue = remainder(hue / 6 + shift, 1) * 6;
  V* channels[3] = {&r, &g, &b};
  for (int c = 0; c < 3; c++) {
    const V k = remainder(float(5 - 2 * c) + hue, 6);
    *channels[c] = value - spread * clamped(smaller(k, 4 - k));
  }
}

// Four operations on one image in its own order, in place: pixels [3][784]; factors of brightness, contrast, saturation, hue.
void jitter_image(float* pixels, const float* factor, const int64_t* order) {
  constexpr int N = IMAGE * IMAGE;
  for (int place = 0; place < 4; place++) {
    const float f = factor[order[place]];
    float gray = 0;
    if (order[place] == 1) {
      V sum = {};
      for (int i = 0; i < N; i += LANES) sum += luma(load(pixels + i), load(pixels + N + i), load(pixels + 2 * N + i));
      gray = sum_of(sum) / N;
    }
    for (int i = 0; i < N; i += LANES) {
      V r = load(pixels + i), g = load(pixels + N + i), b = load(pixels + 2 * N + i);
      if (order[place] == 3) {
        turn_hue(r, g, b, f);
      } else {
        const V other = order[place] == 0 ? V{} : order[place] == 1 ? splat(gray) : luma(r, g, b);
        r = blended(r, other, f), g = blended(g, other, f), b = blended(b, other, f);
      }
      store(pixels + i, r), store(pixels + N + i, g), store(pixels + 2 * N + i, b);
    }
  }
}

// --- the interface -----------------------------------------------------------------------------------------------------------

// 0 for what was done; otherwise what is there is not to be used.
enum : int32_t { DONE = 0, REFUSED = 1, NO_MEMORY = 2 };

INTERFACE void dtcl_use(void* openmp) { team = (Team)openmp; }
INTERFACE int32_t dtcl_call_size() { return sizeof(Call); }
INTERFACE int32_t dtcl_chunk() { return CHUNK; }
INTERFACE int64_t dtcl_gradients() { return gradients(BLOCKS); }

INTERFACE int32_t dtcl_forward(const Call* call) { return (call->colors == 1 ? forward<1>(*call) : forward<3>(*call)) ? DONE : NO_MEMORY; }
INTERFACE int32_t dtcl_backward(const Call* call) { return (call->colors == 1 ? backward<1>(*call) : backward<3>(*call)) ? DONE : NO_MEMORY; }
INTERFACE int32_t dtcl_infer(const Call* call) {
  const bool done = in_passes(
      1, call->runs, (call->images + CHUNK - 1) / CHUNK, call->threads,
      [&](int, int64_t r, int64_t chunk) { call->colors == 1 ? infer_chunk<1>(*call, r, chunk) : infer_chunk<3>(*call, r, chunk); },
      [](int, int64_t) {});
  return done ? DONE : NO_MEMORY;
}

// scratch [chunks][27][28], out [27][28]
INTERFACE int32_t dtcl_moments(const float* input, const float* tint, int64_t images, int32_t colors, int32_t threads, double* scratch, double* out) {
  const int64_t chunks = (images + CHUNK - 1) / CHUNK, size = 27 * 28;
  std::memset(scratch, 0, chunks * size * sizeof(double));
  const bool done = parallel(threads, chunks, [&](int64_t c) {
    colors == 1 ? moments_chunk<1>(input, tint, images, c, scratch + c * size) : moments_chunk<3>(input, tint, images, c, scratch + c * size);
  });
  std::memset(out, 0, size * sizeof(double));
  for (int64_t c = 0; c < chunks; c++)
    for (int64_t i = 0; i < size; i++) out[i] += scratch[c * size + i];
  return done ? DONE : NO_MEMORY;
}

INTERFACE int32_t dtcl_masks(const uint64_t* key, int64_t words, uint32_t below, int32_t threads, uint16_t* out) {
  constexpr int64_t SHARE = 4096;
  const bool done = parallel(threads, (words + SHARE - 1) / SHARE, [&](int64_t i) {
    mask_words(key, i * SHARE, words < (i + 1) * SHARE ? words : (i + 1) * SHARE, below, out);
  });
  return done ? DONE : NO_MEMORY;
}

// gray [count][28][28], tint [count][3], factors [count][4], order [count][4] -> out [count][29][29][3] with a border, each value
// times `scale` plus `offset` (the border stays zero). REFUSED for an order that is none.
INTERFACE int32_t dtcl_jitter(const float* gray, const float* tint, const float* factors, const int64_t* order, int64_t count, float scale,
                float offset, int32_t threads, float* out) {
  constexpr int N = IMAGE * IMAGE, SPAN = IMAGE + 1;
  for (int64_t i = 0; i < 4 * count; i++)
    if (order[i] < 0 || order[i] > 3) return REFUSED;
  const bool done = parallel(threads, (count + 15) / 16, [&](int64_t s) {
    alignas(64) float pixels[3 * N];
    for (int64_t i = s * 16; i < (s + 1) * 16 && i < count; i++) {
      for (int c = 0; c < 3; c++)
        for (int p = 0; p < N; p += LANES) store(pixels + c * N + p, tint[i * 3 + c] * load(gray + i * N + p));
      jitter_image(pixels, factors + i * 4, order + i * 4);
      float* to = out + i * SPAN * SPAN * 3;
      std::memset(to, 0, SPAN * 3 * sizeof(float));
      for (int y = 0; y < IMAGE; y++) {
        float* row = to + (y + 1) * SPAN * 3;
        row[0] = row[1] = row[2] = 0;
        for (int x = 0; x < IMAGE; x++)
          for (int c = 0; c < 3; c++) row[3 + x * 3 + c] = scale * pixels[c * N + y * IMAGE + x] + offset;
      }
    }
  });
  return done ? DONE : NO_MEMORY;
}

// Views of the images at index [count]: gray [size][28][28], boxes [2][size][4], sigmas [2][size] -> out [2 * count][.][.].
// REFUSED for an index, box, kernel or border that fits no image; then nothing was written.
INTERFACE int32_t dtcl_views(const float* gray, const int64_t* index, const int64_t* boxes, const float* sigmas, int64_t size, int64_t count,
                             int32_t kernel, int32_t border, int32_t threads, float* out) {
  if (kernel < 1 || kernel > 55 || kernel % 2 == 0 || border < 0 || border > 1) return REFUSED;
  for (int64_t i = 0; i < count; i++) {
    if (index[i] < 0 || index[i] >= size) return REFUSED;
    for (int v = 0; v < 2; v++) {
      const int64_t* box = boxes + (v * size + index[i]) * 4;
      for (int axis = 0; axis < 2; axis++)
        if (box[axis] < 0 || box[axis] >= IMAGE || box[axis + 2] < 1 || box[axis + 2] > IMAGE - box[axis]) return REFUSED;
    }
  }
  const int64_t pixels = (IMAGE + border) * (IMAGE + border), share = 16;
  const bool done = parallel(threads, (2 * count + share - 1) / share, [&](int64_t s) {
    for (int64_t i = s * share; i < (s + 1) * share && i < 2 * count; i++) {
      const int64_t image = index[i % count], at = i / count * size + image;
      view(gray + image * IMAGE * IMAGE, boxes + at * 4, sigmas[at], kernel, border, out + i * pixels);
    }
  });
  return done ? DONE : NO_MEMORY;
}
