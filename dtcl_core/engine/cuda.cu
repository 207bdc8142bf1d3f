// The encoder's blocks on a GPU (3x3 convolution of stride 2, batch norm over the batch, dropout, ReLU), forward and backward, in float32.
//
// The algebra is that of native.cpp: the first block is never stored, and of the other blocks the convolution's output is. A thread
// block takes a chunk of CHUNK images of one run, a few at a time, and holds what enters a convolution in shared memory. Each thread
// holds a tile of results in registers, large enough that arithmetic takes as long as reading shared memory. The pitches of the arrays there
// keep the threads of a warp out of each other's memory banks. What is summed over images is summed within a chunk first, and chunks are
// added in order: the same bits every time.
//
// Compiled by cuda.py with WIDTHS, the channels of each block, all multiples of 16, and SHARED_BYTES. The tests compile it for a CPU.
#include <cstdint>

#ifdef __CUDACC__
struct Grid {
  int64_t x, y;
};
template <class Kernel, class... Arguments> void launch(Kernel kernel, Grid grid, int threads, int floats, void* stream, Arguments... arguments) {
  if (floats > 12288) cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, floats * 4);
  kernel<<<dim3(grid.x, grid.y), threads, floats * 4, (cudaStream_t)stream>>>(arguments...);
}
#define LAUNCH(kernel, grid, floats, stream, ...) launch(kernel, grid, THREADS, floats, stream, __VA_ARGS__)
#define SHARED(name) extern __shared__ float4 shared_memory[]; float* name = (float*)shared_memory
inline int32_t last_status() { return cudaGetLastError(); }
#else
#include "emulated.h"  // what these words mean on a CPU
#endif

constexpr int ROOM = SHARED_BYTES / 4;  // floats of shared memory that a thread block may have
constexpr int THREADS = 128, CHUNK = 32, IMAGE = 28, TAPS = 9, PLANE = 29 * 30;  // PLANE: a padded image in shared memory
constexpr int WIDTH[] = {WIDTHS};
constexpr int BLOCKS = sizeof(WIDTH) / sizeof(int), FIRST = WIDTH[0];
constexpr int side(int block) { return block < 0 ? IMAGE : (side(block - 1) + 1) / 2; }  // of the map that leaves it
constexpr int area(int block) { return side(block) * side(block) * WIDTH[block]; }
constexpr int least(int a, int b) { return a < b ? a : b; }
constexpr int most(int a, int b) { return a > b ? a : b; }
constexpr int widest(int block = 0) { return block == BLOCKS ? 0 : most(WIDTH[block], widest(block + 1)); }
constexpr int64_t gradients(int before) {  // where a block's weights' gradient stands among the partial ones
  return before == 0 ? 0 : gradients(before - 1) + TAPS * (before == 1 ? 3 : WIDTH[before > 1 ? before - 2 : 0]) * WIDTH[before - 1];
}
static_assert(BLOCKS >= 2 && side(BLOCKS - 1) >= 2, "two to four blocks");

struct Call {  // as in native.cpp
  int64_t runs, images;
  int32_t threads, colors;
  const float *input, *tint;
  const uint16_t* mask[4];
  const float *weight[4], *turned[4], *shift[4], *gamma[4], *beta[4];
  float *map[4], *norm[4], *out;
  const float* dout;
  float* dmap[4];
  double* sums;
  float *partial, *dweight[4], *dgamma[4], *dbeta[4];
};

__device__ inline int64_t chunks_of(const Call& call) { return (call.images + CHUNK - 1) / CHUNK; }
__device__ inline float4& four(float* p) { return *(float4*)p; }
__device__ inline const float4& four(const float* p) { return *(const float4*)p; }
template <int N> __device__ inline void take(float (&to)[N], int at, const float* from) {  // four floats
  const float4 v = four(from);
  to[at] = v.x, to[at + 1] = v.y, to[at + 2] = v.z, to[at + 3] = v.w;
}
__device__ inline float positive(float x, uint32_t kept) { return kept ? (x < 0 ? 0.f : x) : 0.f; }  // keeps what is not a number

// Shape of the convolution of BLOCK, and how threads share it out.
template <int BLOCK> struct Shape {
  static constexpr int CIN = WIDTH[BLOCK - 1], COUT = WIDTH[BLOCK], FROM = side(BLOCK - 1), SIDE = side(BLOCK), SPAN = 2 * SIDE + 1;
  // Forward: a thread has ROWS rows and 16 channels, of a quarter of the inputs.
  static constexpr int ROWS = SIDE > 4 ? 1 : least(SIDE, 8 / SIDE), ROW_GROUPS = (SIDE + ROWS - 1) / ROWS, GROUPS = COUT / 16;
  static constexpr int PER_IMAGE = ROW_GROUPS * GROUPS * 4, QUARTER = CIN / 4;
  static constexpr int PITCH = SPAN * CIN + (ROWS == 1 ? 8 : 4);  // of a row that enters
  static constexpr int QUARTER_WEIGHTS = QUARTER * COUT + 4;
  // Back to the input: a thread has two rows of four channels. To the weights: three taps, four inputs, eight outputs.
  static constexpr int BACK_PER_IMAGE = SIDE * (CIN / 4), TILES = 3 * (CIN / 4) * (COUT / 8), SPLITS = most(1, THREADS / TILES);
  static constexpr int DPITCH = (SIDE + 1) * COUT + 4;
  static constexpr int AT_ONCE = most(1, least(8, THREADS / PER_IMAGE)), BACK_AT_ONCE = most(1, least(8, THREADS / BACK_PER_IMAGE));
  static constexpr int ENTERING = SPAN * PITCH, DY = (SIDE + 1) * DPITCH;
};

// store(i, load(i)) for all i below TOTAL, shared out among threads. Each starts AHEAD loads before it waits for the first.
template <int TOTAL, int AHEAD, class Load, class Store> __device__ inline void staged(Load load, Store store) {
#pragma unroll 1
  for (int base = threadIdx.x; base < TOTAL; base += THREADS * AHEAD) {
    decltype(load(0)) loaded[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      loaded[k] = load(least(base + k * THREADS, TOTAL - 1));  // nothing is asked in between
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (base + k * THREADS < TOTAL) store(base + k * THREADS, loaded[k]);
  }
}

// --- what enters a convolution ------------------------------------------------------------------------------------------------

struct Tint {
  float red, green, blue;
};

// What the first block needs in shared memory, of `slots` images at once: see `load_images`.
template <int COLORS> struct First {
  float *planes, *weights, *given, *shift, *tint;
  static constexpr int memory(int slots) { return (slots * COLORS * PLANE + 3) / 4 * 4 + slots * TAPS * FIRST + 3 * TAPS * FIRST + FIRST + 4 * slots; }
  __device__ inline First(float* at, int slots) {
    planes = at, weights = planes + (slots * COLORS * PLANE + 3) / 4 * 4, given = weights + slots * TAPS * FIRST;
    shift = given + 3 * TAPS * FIRST, tint = shift + FIRST;
  }
  __device__ inline void load_weights(const Call& call, int64_t r) {
    const float *w = call.weight[0] + r * 3 * TAPS * FIRST, *to_shift = call.shift[0] + r * FIRST;
    staged<3 * TAPS * FIRST, 4>([&](int i) { return w[i]; }, [&](int i, float v) { given[i] = v; });
    if (threadIdx.x < FIRST) shift[threadIdx.x] = to_shift[threadIdx.x];
  }
};

// Load images `b0` and following into planes [slot][COLORS][29][30]; for gray ones make weights [slot][9][FIRST] of each, from its tint. Ends
// without a barrier. Past the last image, here and below, the last is taken: nothing of it counts.
template <int COLORS, int SLOTS> __device__ inline void load_images(const Call& call, int64_t b0, const First<COLORS>& first) {
  constexpr int N = 29 * 29 * COLORS;
  const int last = int(call.images - 1 - b0);
  staged<SLOTS * N, 9>([&](int i) { return call.input[(b0 + least(i / N, last)) * N + i % N]; },
                       [&](int i, float v) {
                         const int pixel = i % N / COLORS, c = i % COLORS;
                         first.planes[(i / N * COLORS + c) * PLANE + pixel / 29 * 30 + pixel % 29] = v;
                       });
  if (COLORS == 1)
    staged<SLOTS * TAPS * FIRST, 5>(
        [&](int i) {
          const float* tint = call.tint + (b0 + least(i / (TAPS * FIRST), last)) * 3;
          return Tint{tint[0], tint[1], tint[2]};
        },
        [&](int i, Tint v) {
          const float* k = first.given + i / FIRST % TAPS * 3 * FIRST + i % FIRST;
          first.weights[i] = v.red * k[0] + v.green * k[FIRST] + v.blue * k[2 * FIRST];
          if (i % (TAPS * FIRST) == 0) four(first.tint + i / (TAPS * FIRST) * 4) = make_float4(v.red, v.green, v.blue, 0);
        });
}

// The first block of `slots` images from their planes, into `in` [slot][15][PITCH]. A thread has half a row of 8 channels.
template <int COLORS> __device__ void first_block(const Call& call, int64_t r, int64_t b0, int slots, const First<COLORS>& first, float* in) {
  using S = Shape<1>;
  constexpr int PARTS = FIRST / 8, PER = 28 * PARTS, TOGETHER = THREADS / PER > 0 ? THREADS / PER : 1;
  static_assert(PER <= THREADS, "at most 32 channels in the first block");
  const int place = threadIdx.x / PER, rest = threadIdx.x % PER, co = rest % PARTS * 8, half = rest / PARTS % 2, y = rest / PARTS / 2;
  if (place >= TOGETHER) return;
#pragma unroll 1
  for (int slot = place; slot < slots; slot += TOGETHER) {
    const int64_t b = b0 + slot < call.images ? b0 + slot : call.images - 1;
    const uint16_t* mask = call.mask[0] + (b * 196 + y * 14 + half * 7) * (FIRST / 16) + co / 16;
    uint32_t kept[7];
#pragma unroll
    for (int x = 0; x < 7; x++) kept[x] = mask[x * (FIRST / 16)];
    float acc[7][8], shift[8];
    take(shift, 0, first.shift + co), take(shift, 4, first.shift + co + 4);
#pragma unroll
    for (int x = 0; x < 7; x++)
#pragma unroll
      for (int j = 0; j < 8; j++) acc[x][j] = shift[j];
#pragma unroll 1
    for (int c = 0; c < COLORS; c++) {
#pragma unroll
      for (int ky = 0; ky < 3; ky++) {
        const float* row = first.planes + (slot * COLORS + c) * PLANE + (2 * y + ky) * 30 + 14 * half;
        float seen[15];
#pragma unroll
        for (int i = 0; i < 15; i++) seen[i] = row[i];
#pragma unroll
        for (int kx = 0; kx < 3; kx++) {
          const int tap = ky * 3 + kx;
          const float* w = (COLORS == 1 ? first.weights + (slot * TAPS + tap) * FIRST : first.given + (tap * 3 + c) * FIRST) + co;
          const float4 k0 = four(w), k1 = four(w + 4);
          const float k[8] = {k0.x, k0.y, k0.z, k0.w, k1.x, k1.y, k1.z, k1.w};
#pragma unroll
          for (int x = 0; x < 7; x++)
#pragma unroll
            for (int j = 0; j < 8; j++) acc[x][j] += seen[2 * x + kx] * k[j];
        }
      }
    }
    float* to = in + slot * S::ENTERING + (y + 1) * S::PITCH + (half * 7 + 1) * FIRST + co;
#pragma unroll
    for (int x = 0; x < 7; x++) {
      float v[8];
#pragma unroll
      for (int j = 0; j < 8; j++) v[j] = positive(acc[x][j], kept[x] >> (co % 16 + j) & 1);
      four(to + x * FIRST) = make_float4(v[0], v[1], v[2], v[3]);
      four(to + x * FIRST + 4) = make_float4(v[4], v[5], v[6], v[7]);
    }
  }
}

struct Seen {
  float4 y;
  uint32_t kept;
};

// Norm (scale and shift [2][CIN]), mask and ReLU of block FROM_BLOCK of SLOTS images, into `in` with the pitch of the block after it.
template <int FROM_BLOCK, int SLOTS, int AHEAD> __device__ inline void activate(const Call& call, int64_t r, int64_t b0, const float* norm, float* in) {
  using S = Shape<FROM_BLOCK + 1>;
  constexpr int W = S::CIN, N = S::FROM * S::FROM * W / 4;
  const int last = int(call.images - 1 - b0);
  staged<SLOTS * N, AHEAD>(
      [&](int i) {
        const int64_t b = b0 + least(i / N, last);
        const int at = i % N * 4;
        const uint16_t* mask = call.mask[FROM_BLOCK] + (b * area(FROM_BLOCK) + at) / 16;
        return Seen{four(call.map[FROM_BLOCK] + (r * call.images + b) * area(FROM_BLOCK) + at), *mask};
      },
      [&](int i, Seen seen) {
        const int at = i % N * 4, pixel = at / W, c = at % W;
        const float4 y = seen.y, scale = four(norm + c), shift = four(norm + W + c);
        const uint32_t kept = seen.kept >> (c % 16);
        four(in + i / N * S::ENTERING + (pixel / S::FROM + 1) * S::PITCH + (pixel % S::FROM + 1) * W + c) =
            make_float4(positive(y.x * scale.x + shift.x, kept & 1), positive(y.y * scale.y + shift.y, kept & 2),
                        positive(y.z * scale.z + shift.z, kept & 4), positive(y.w * scale.w + shift.w, kept & 8));
      });
}

// --- forward --------------------------------------------------------------------------------------------------------------------

// Floats that `slots` images need besides what enters: for the first block, or for the norm of the one before.
template <int BLOCK, int COLORS> constexpr int source_memory(int slots) { return BLOCK == 1 ? First<COLORS>::memory(slots) : 2 * Shape<BLOCK>::CIN; }
template <int BLOCK, int COLORS> constexpr int forward_memory(int slots) {
  using S = Shape<BLOCK>;
  return most(slots * S::ENTERING, THREADS * 8) + TAPS * 4 * S::QUARTER_WEIGHTS + source_memory<BLOCK, COLORS>(slots);
}
// How many images fit at once.
template <int BLOCK, int COLORS> constexpr int forward_slots(int slots = Shape<BLOCK>::AT_ONCE) {
  return slots == 1 || forward_memory<BLOCK, COLORS>(slots) <= ROOM ? slots : forward_slots<BLOCK, COLORS>(slots / 2);
}

// The convolution of BLOCK for a chunk of a run, and the sums of its outputs and of their squares.
template <int BLOCK, int COLORS, bool SUMS> __global__ void __launch_bounds__(THREADS) forward_kernel(Call call) {
  using S = Shape<BLOCK>;
  constexpr int P = S::ROWS * S::SIDE, I = forward_slots<BLOCK, COLORS>();
  static_assert(forward_memory<BLOCK, COLORS>(I) <= ROOM, "an image fits into shared memory");
  SHARED(smem);
  float *in = smem, *w = in + most(I * S::ENTERING, THREADS * 8), *source = w + TAPS * 4 * S::QUARTER_WEIGHTS;
  First<COLORS> first(source, I);
  const int64_t r = blockIdx.y, chunk = blockIdx.x, end = chunk * CHUNK + CHUNK < call.images ? chunk * CHUNK + CHUNK : call.images;
  const int t = threadIdx.x, quarter = t % 4, group = t / 4 % S::GROUPS, rows = t / 4 / S::GROUPS % S::ROW_GROUPS;
  const bool mine = t < I * S::PER_IMAGE;
  const int slot = mine ? t / S::PER_IMAGE : 0;
  for (int i = t; i < I * S::ENTERING / 4; i += THREADS) four(in + 4 * i) = make_float4(0, 0, 0, 0);
  const float* given = call.weight[BLOCK] + r * TAPS * S::CIN * S::COUT;
  staged<TAPS * S::CIN * S::COUT / 4, 5>([&](int i) { return four(given + 4 * i); },
                                         [&](int i, float4 v) {
                                           const int tap = 4 * i / (S::CIN * S::COUT), ci = 4 * i / S::COUT % S::CIN, co = 4 * i % S::COUT;
                                           four(w + (tap * 4 + ci / S::QUARTER) * S::QUARTER_WEIGHTS + ci % S::QUARTER * S::COUT + co) = v;
                                         });
  if (BLOCK == 1) first.load_weights(call, r);
  if (BLOCK > 1)
    for (int i = t; i < 2 * S::CIN; i += THREADS) source[i] = call.norm[BLOCK - 1][r * 5 * S::CIN + i];
  float sum[4] = {}, square[4] = {};
  for (int64_t b0 = chunk * CHUNK; b0 < end; b0 += I) {
    __syncthreads();
    if constexpr (BLOCK == 1) {
      load_images<COLORS, I>(call, b0, first);
      __syncthreads();
      first_block<COLORS>(call, r, b0, I, first, in);
    } else {
      activate<BLOCK - 1, I, 7>(call, r, b0, source, in);
    }
    __syncthreads();
    float acc[P][16];
#pragma unroll
    for (int p = 0; p < P; p++)
#pragma unroll
      for (int c = 0; c < 16; c++) acc[p][c] = 0;
    const float* from = in + slot * S::ENTERING + 2 * rows * S::ROWS * S::PITCH + quarter * S::QUARTER;
#pragma unroll 1
    for (int tap = 0; tap < TAPS; tap++) {
      const float* x = from + tap / 3 * S::PITCH + tap % 3 * S::CIN;
      const float* k = w + (tap * 4 + quarter) * S::QUARTER_WEIGHTS + group * 16;
#pragma unroll
      for (int i = 0; i < S::QUARTER; i += 4) {
        float4 seen[P];
#pragma unroll
        for (int p = 0; p < P; p++) seen[p] = four(x + 2 * (p / S::SIDE) * S::PITCH + 2 * (p % S::SIDE) * S::CIN + i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          float kernel[16];
#pragma unroll
          for (int c = 0; c < 16; c += 4) take(kernel, c, k + (i + j) * S::COUT + c);
#pragma unroll
          for (int p = 0; p < P; p++) {
            const float v = j == 0 ? seen[p].x : j == 1 ? seen[p].y : j == 2 ? seen[p].z : seen[p].w;
#pragma unroll
            for (int c = 0; c < 16; c++) acc[p][c] += v * kernel[c];
          }
        }
      }
    }
    // Add up the quarters: each of four neighbours is left with four of the 16 channels.
    const int64_t b = b0 + slot;
#pragma unroll
    for (int p = 0; p < P; p++) {
      float eight[8], v[4];
#pragma unroll
      for (int c = 0; c < 8; c++) {
        const bool high = quarter & 2;
        eight[c] = (high ? acc[p][c + 8] : acc[p][c]) + __shfl_xor_sync(0xffffffffu, high ? acc[p][c] : acc[p][c + 8], 2);
      }
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const bool high = quarter & 1;
        v[c] = (high ? eight[c + 4] : eight[c]) + __shfl_xor_sync(0xffffffffu, high ? eight[c] : eight[c + 4], 1);
      }
      const int row = rows * S::ROWS + p / S::SIDE;
      if (mine && b < end && row < S::SIDE) {
        four(call.map[BLOCK] + ((r * call.images + b) * S::SIDE * S::SIDE + row * S::SIDE + p % S::SIDE) * S::COUT + group * 16 + quarter * 4) =
            make_float4(v[0], v[1], v[2], v[3]);
        if (SUMS)
#pragma unroll
          for (int c = 0; c < 4; c++) sum[c] += v[c], square[c] += v[c] * v[c];
      }
    }
  }
  if (SUMS) {
    __syncthreads();
    for (int c = 0; c < 4; c++) in[t * 8 + c] = sum[c], in[t * 8 + 4 + c] = square[c];
    __syncthreads();
    for (int i = t; i < 2 * S::COUT; i += THREADS) {
      const int c = i % S::COUT;
      double total = 0;
      for (int other = (c / 16) * 4 + c % 16 / 4; other < I * S::PER_IMAGE; other += S::GROUPS * 4) total += in[other * 8 + i / S::COUT * 4 + c % 4];
      call.sums[(r * chunks_of(call) + chunk) * 2 * widest() + i] = total;
    }
  }
}

// The norm of BLOCK of each run, from the sums of its chunks.
template <int BLOCK> __global__ void norm_kernel(Call call) {
  constexpr int W = WIDTH[BLOCK];
  const int64_t r = blockIdx.x, chunks = chunks_of(call);
  const double n = double(call.images) * side(BLOCK) * side(BLOCK);
  for (int c = threadIdx.x; c < W; c += THREADS) {
    double sum = 0, square = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const double* from = call.sums + (r * chunks + chunk) * 2 * widest();
      sum += from[c], square += from[W + c];
    }
    const double mean = sum / n, spread = square / n - mean * mean, variance = spread < 0 ? 0 : spread, inverse = 1 / sqrt(variance + 1e-5);
    const float scale = float(call.gamma[BLOCK][r * W + c] * inverse);
    float* norm = call.norm[BLOCK] + r * 5 * W + c;
    norm[0] = scale, norm[W] = float(call.beta[BLOCK][r * W + c] - mean * scale), norm[2 * W] = float(mean), norm[3 * W] = float(inverse);
    norm[4 * W] = float(variance);
  }
}

// What leaves the last block.
__global__ void __launch_bounds__(THREADS) out_kernel(Call call) {
  constexpr int LAST = BLOCKS - 1, W = WIDTH[LAST], N = area(LAST) / 4;
  const int64_t count = call.runs * call.images * N;
  for (int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x; i < count; i += int64_t(gridDim.x) * THREADS) {
    const int64_t image = i / N, r = image / call.images, b = image % call.images;
    const int at = i % N * 4, c = at % W;
    const float *norm = call.norm[LAST] + r * 5 * W + c;
    const float4 y = four(call.map[LAST] + i * 4), scale = four(norm), shift = four(norm + W);
    const uint32_t kept = call.mask[LAST][(b * area(LAST) + at) / 16] >> (c % 16);
    four(call.out + i * 4) = make_float4(positive(y.x * scale.x + shift.x, kept & 1), positive(y.y * scale.y + shift.y, kept & 2),
                                         positive(y.z * scale.z + shift.z, kept & 4), positive(y.w * scale.w + shift.w, kept & 8));
  }
}

// --- backward --------------------------------------------------------------------------------------------------------------------

// Sums over a chunk of the gradient that reaches the last norm, and of its product with the centred convolution.
__global__ void __launch_bounds__(THREADS) top_kernel(Call call) {
  constexpr int LAST = BLOCKS - 1, W = WIDTH[LAST], LANES = W / 4, N = area(LAST) / 4;
  static_assert(THREADS % LANES == 0, "threads keep their channels");
  SHARED(smem);
  const int64_t r = blockIdx.y, chunk = blockIdx.x, end = chunk * CHUNK + CHUNK < call.images ? chunk * CHUNK + CHUNK : call.images;
  const int t = threadIdx.x, c = t % LANES * 4;
  const float4 mean = four(call.norm[LAST] + (r * 5 + 2) * W + c);
  float sum[4] = {}, along[4] = {};
  const int64_t first = (r * call.images + chunk * CHUNK) * N, last = (r * call.images + end) * N;
  for (int64_t i = first + t; i < last; i += THREADS) {
    const float4 out = four(call.out + i * 4), d = four(call.dout + i * 4), y = four(call.map[LAST] + i * 4);
    const float g[4] = {out.x > 0 ? d.x : 0, out.y > 0 ? d.y : 0, out.z > 0 ? d.z : 0, out.w > 0 ? d.w : 0};
    sum[0] += g[0], sum[1] += g[1], sum[2] += g[2], sum[3] += g[3];
    along[0] += g[0] * (y.x - mean.x), along[1] += g[1] * (y.y - mean.y), along[2] += g[2] * (y.z - mean.z), along[3] += g[3] * (y.w - mean.w);
  }
  for (int j = 0; j < 4; j++) smem[t * 8 + j] = sum[j], smem[t * 8 + 4 + j] = along[j];
  __syncthreads();
  for (int i = t; i < 2 * W; i += THREADS) {
    double total = 0;
    for (int other = i % W / 4; other < THREADS; other += LANES) total += smem[other * 8 + i / W * 4 + i % 4];
    call.sums[(r * chunks_of(call) + chunk) * 2 * widest() + i] = total;
  }
}

// Gradients of the norm of BLOCK, from the sums of its chunks; of the first only that of its shift.
template <int BLOCK> __global__ void dnorm_kernel(Call call) {
  constexpr int W = WIDTH[BLOCK];
  const int64_t r = blockIdx.x, chunks = chunks_of(call);
  for (int c = threadIdx.x; c < W; c += THREADS) {
    double sum = 0, along = 0;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const double* from = call.sums + (r * chunks + chunk) * 2 * widest();
      sum += from[c], along += BLOCK > 0 ? from[W + c] : 0;
    }
    call.dbeta[BLOCK][r * W + c] = float(sum);
    if (BLOCK > 0) call.dgamma[BLOCK][r * W + c] = float(along * call.norm[BLOCK][(r * 5 + 3) * W + c]);
  }
}

struct Gradient {
  float4 g, z, out;
};

// Floats for maps and gradients, and for all; sums over threads come last, in the place of everything.
template <int BLOCK> constexpr int backward_maps(int slots) {
  using S = Shape<BLOCK>;
  const int reduced = BLOCK == 1 ? slots * 7 * (FIRST / 4) * 36 : 0;
  return slots * S::ENTERING + most(slots * S::DY, reduced);
}
template <int BLOCK, int COLORS> constexpr int backward_memory(int slots) {
  using S = Shape<BLOCK>;
  const int before = backward_maps<BLOCK>(slots) + TAPS * S::CIN * S::COUT + 3 * S::COUT + source_memory<BLOCK, COLORS>(slots);
  return most(most(before, S::TILES * S::SPLITS * 96), THREADS * 8);
}
template <int BLOCK, int COLORS> constexpr int backward_slots(int slots = Shape<BLOCK>::BACK_AT_ONCE) {
  return slots == 1 || backward_memory<BLOCK, COLORS>(slots) <= ROOM ? slots : backward_slots<BLOCK, COLORS>(slots / 2);
}

// A chunk of a run back through BLOCK: its weights' gradient, and the gradient that leaves the block before it (of the first: its weights').
template <int BLOCK, int COLORS> __global__ void __launch_bounds__(THREADS) backward_kernel(Call call) {
  using S = Shape<BLOCK>;
  constexpr int I = backward_slots<BLOCK, COLORS>(), W = S::COUT, BEFORE = S::CIN, SPLITS = S::SPLITS;
  static_assert(backward_memory<BLOCK, COLORS>(I) <= ROOM, "an image fits into shared memory");
  static_assert(S::TILES <= THREADS && S::BACK_PER_IMAGE <= THREADS, "blocks of at most so many channels");
  SHARED(smem);
  float *in = smem, *dy = in + I * S::ENTERING, *turned = smem + backward_maps<BLOCK>(I), *a = turned + TAPS * BEFORE * W, *d = a + W, *e = d + W, *source = e + W;
  First<COLORS> first(source, I);
  const int64_t r = blockIdx.y, chunk = blockIdx.x, end = chunk * CHUNK + CHUNK < call.images ? chunk * CHUNK + CHUNK : call.images;
  const int t = threadIdx.x;
  for (int i = t; i < I * S::ENTERING / 4; i += THREADS) four(in + 4 * i) = make_float4(0, 0, 0, 0);
  const float* given = call.turned[BLOCK] + r * TAPS * BEFORE * W;
  staged<TAPS * BEFORE * W / 4, 5>([&](int i) { return four(given + 4 * i); }, [&](int i, float4 v) { four(turned + 4 * i) = v; });
  if (BLOCK == 1) first.load_weights(call, r);
  if (BLOCK > 1)
    for (int i = t; i < 2 * BEFORE; i += THREADS) source[i] = call.norm[BLOCK - 1][r * 5 * BEFORE + i];
  for (int c = t; c < W; c += THREADS) {  // through the norm: dy = a g + d y + e
    const float* norm = call.norm[BLOCK] + r * 5 * W + c;
    const double n = double(call.images) * S::SIDE * S::SIDE, scale = norm[0], mean = norm[2 * W], inverse = norm[3 * W];
    const double sum = call.dbeta[BLOCK][r * W + c], along = call.dgamma[BLOCK][r * W + c];
    a[c] = float(scale), d[c] = float(-scale * inverse * along / n), e[c] = float(-scale * (sum - mean * inverse * along) / n);
  }
  // This thread's tile of the weights' gradient ...
  const int tile = t % S::TILES, split = t / S::TILES, co8 = tile % (W / 8) * 8, ci4 = tile / (W / 8) % (BEFORE / 4) * 4, ky = tile / (W / 8) / (BEFORE / 4);
  float acc[3][4][8];
#pragma unroll
  for (int i = 0; i < 96; i++) acc[i / 32][i / 8 % 4][i % 8] = 0;
  // ... and its two rows of the input's.
  const int back4 = t % (BEFORE / 4) * 4, y = t / (BEFORE / 4) % S::SIDE, slot = t / S::BACK_PER_IMAGE;
  constexpr int CORR = 3 * TAPS * FIRST;
  float sum[4] = {}, along[4] = {}, corr[BLOCK == 1 ? (CORR + THREADS - 1) / THREADS : 1] = {};

  for (int64_t b0 = chunk * CHUNK; b0 < end; b0 += I) {
    __syncthreads();
    for (int i = t; i < I * (2 * S::SIDE + 1) * W / 4; i += THREADS) {  // a row and a column of zeros after it
      const int at = i % ((2 * S::SIDE + 1) * W / 4), pixel = at / (W / 4), c = at % (W / 4) * 4;
      const int row = pixel <= S::SIDE ? S::SIDE : pixel - S::SIDE - 1, col = pixel <= S::SIDE ? pixel : S::SIDE;
      four(dy + i / ((2 * S::SIDE + 1) * W / 4) * S::DY + row * S::DPITCH + col * W + c) = make_float4(0, 0, 0, 0);
    }
    constexpr int N = S::SIDE * S::SIDE * W / 4;
    constexpr bool TOP = BLOCK == BLOCKS - 1;
    const int ours = int(end - b0);
    staged<I * N, 3>(
        [&](int i) {
          const int64_t from = (r * call.images + b0 + least(i / N, ours - 1)) * area(BLOCK) + i % N * 4;
          const float4 g = four((TOP ? call.dout : call.dmap[BLOCK]) + from);
          return Gradient{g, four(call.map[BLOCK] + from), TOP ? four(call.out + from) : g};
        },
        [&](int i, Gradient seen) {
          const int at = i % N * 4, c = at % W, col = at / W % S::SIDE, row = at / W / S::SIDE;
          float4 g = seen.g, z = seen.z, out = seen.out;
          if (TOP) g = make_float4(out.x > 0 ? g.x : 0, out.y > 0 ? g.y : 0, out.z > 0 ? g.z : 0, out.w > 0 ? g.w : 0);
          const float4 k = four(a + c), l = four(d + c), m = four(e + c);
          g = make_float4(k.x * g.x + l.x * z.x + m.x, k.y * g.y + l.y * z.y + m.y, k.z * g.z + l.z * z.z + m.z, k.w * g.w + l.w * z.w + m.w);
          four(dy + i / N * S::DY + row * S::DPITCH + col * W + c) = i / N < ours ? g : make_float4(0, 0, 0, 0);
        });
    if constexpr (BLOCK == 1) {
      load_images<COLORS, I>(call, b0, first);
      __syncthreads();
      first_block<COLORS>(call, r, b0, I, first, in);
    } else {
      activate<BLOCK - 1, I, 4>(call, r, b0, source, in);
    }
    __syncthreads();

    if (split < SPLITS)
      for (int place = split; place < I; place += SPLITS) {
#pragma unroll 1
        for (int row = 0; row < S::SIDE; row++) {
          const float *x = in + place * S::ENTERING + (2 * row + ky) * S::PITCH + ci4, *g = dy + place * S::DY + row * S::DPITCH + co8;
          float4 left = four(x);
#pragma unroll
          for (int col = 0; col < S::SIDE; col++) {
            const float4 middle = four(x + (2 * col + 1) * BEFORE), right = four(x + (2 * col + 2) * BEFORE);
            float up[8];
            take(up, 0, g + col * W), take(up, 4, g + col * W + 4);
            const float seen[3][4] = {{left.x, left.y, left.z, left.w}, {middle.x, middle.y, middle.z, middle.w}, {right.x, right.y, right.z, right.w}};
#pragma unroll
            for (int kx = 0; kx < 3; kx++)
#pragma unroll
              for (int ci = 0; ci < 4; ci++)
#pragma unroll
                for (int co = 0; co < 8; co++) acc[kx][ci][co] += seen[kx][ci] * up[co];
            left = right;
          }
        }
      }
    if (BLOCK == 1) __syncthreads();  // what entered is overwritten next

    if (slot < I) {
      const int64_t b = b0 + slot;
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {  // input row 2 y is seen by kernel row 1, input row 2 y + 1 by rows 2 and 0
        const int row = 2 * y + odd;
        float even_x[S::SIDE][4], odd_x[S::SIDE][4];
#pragma unroll
        for (int i = 0; i < S::SIDE * 4; i++) even_x[i / 4][i % 4] = odd_x[i / 4][i % 4] = 0;
#pragma unroll 1
        for (int k = 0; k <= odd; k++) {
          const float* g = dy + slot * S::DY + (y + k) * S::DPITCH;
          const float* w = turned + (odd ? 2 - 2 * k : 1) * 3 * W * BEFORE + back4;
#pragma unroll 1
          for (int co = 0; co < W; co += 4) {
            float4 up[S::SIDE + 1];
#pragma unroll
            for (int x = 0; x <= S::SIDE; x++) up[x] = four(g + x * W + co);
#pragma unroll
            for (int j = 0; j < 4; j++) {
              float k0[4], k1[4], k2[4];
              take(k0, 0, w + (co + j) * BEFORE), take(k1, 0, w + (W + co + j) * BEFORE), take(k2, 0, w + (2 * W + co + j) * BEFORE);
#pragma unroll
              for (int x = 0; x < S::SIDE; x++) {
                const float here = j == 0 ? up[x].x : j == 1 ? up[x].y : j == 2 ? up[x].z : up[x].w;
                const float next = j == 0 ? up[x + 1].x : j == 1 ? up[x + 1].y : j == 2 ? up[x + 1].z : up[x + 1].w;
#pragma unroll
                for (int c = 0; c < 4; c++) even_x[x][c] += k1[c] * here, odd_x[x][c] += k2[c] * here, odd_x[x][c] += k0[c] * next;
              }
            }
          }
        }
        if (row < S::FROM) {
          const float floor_of_mine = b < end ? 0.f : INFINITY;  // past the last image nothing passes
          float mean[4] = {};
          if (BLOCK > 1) take(mean, 0, call.norm[BLOCK - 1] + (r * 5 + 2) * BEFORE + back4);
          const int64_t to = ((r * call.images + (b < end ? b : end - 1)) * S::FROM + row) * S::FROM * BEFORE + back4;
          float4 untouched[BLOCK > 1 ? S::FROM : 1];
          if (BLOCK > 1)
#pragma unroll
            for (int x = 0; x < S::FROM; x++) untouched[BLOCK > 1 ? x : 0] = four(call.map[BLOCK - 1] + to + x * BEFORE);
#pragma unroll
          for (int x = 0; x < S::FROM; x++) {
            float* z = in + slot * S::ENTERING + (row + 1) * S::PITCH + (x + 1) * BEFORE + back4;
            float g[4], entered[4];
            take(entered, 0, z);
#pragma unroll
            for (int c = 0; c < 4; c++) {
              const float up = x % 2 ? odd_x[x / 2][c] : even_x[x / 2][c];
              g[c] = entered[c] > floor_of_mine ? up : 0.f;
              sum[c] += g[c];
            }
            if (BLOCK == 1) {
              four(z) = make_float4(g[0], g[1], g[2], g[3]);
            } else {
              if (b < end) four(call.dmap[BLOCK - 1] + to + x * BEFORE) = make_float4(g[0], g[1], g[2], g[3]);
              const float4 before = untouched[BLOCK > 1 ? x : 0];
              along[0] += g[0] * (before.x - mean[0]), along[1] += g[1] * (before.y - mean[1]);
              along[2] += g[2] * (before.z - mean[2]), along[3] += g[3] * (before.w - mean[3]);
            }
          }
        }
      }
    }

    if constexpr (BLOCK == 1) {  // the first block's weights: a thread has two rows of four channels, all nine taps
#pragma unroll 1
      for (int c = 0; c < COLORS; c++) {
        __syncthreads();
        if (slot < I) {
          float tap[9][4];
#pragma unroll
          for (int i = 0; i < 36; i++) tap[i / 4][i % 4] = 0;
#pragma unroll 1
          for (int row = 2 * y; row < 2 * y + 2; row++) {
            const float *g = in + slot * S::ENTERING + (row + 1) * S::PITCH + FIRST + back4, *image = first.planes + (slot * COLORS + c) * PLANE + 2 * row * 30;
#pragma unroll
            for (int x = 0; x < 14; x++) {
              float up[4];
              take(up, 0, g + x * FIRST);
#pragma unroll
              for (int i = 0; i < 9; i++) {
                const float seen = image[i / 3 * 30 + 2 * x + i % 3];
#pragma unroll
                for (int j = 0; j < 4; j++) tap[i][j] += seen * up[j];
              }
            }
          }
#pragma unroll
          for (int i = 0; i < 9; i++) four(dy + (t * 9 + i) * 4) = make_float4(tap[i][0], tap[i][1], tap[i][2], tap[i][3]);
        }
        __syncthreads();
#pragma unroll
        for (int n = 0; n < (CORR + THREADS - 1) / THREADS; n++) {
          const int i = t + n * THREADS, color = i / FIRST % 3, k = i / FIRST / 3, co = i % FIRST;  // [tap][colour][channel]
          if (i < CORR && (COLORS == 1 || color == c))
#pragma unroll
            for (int place = 0; place < I; place++) {
              float total = 0;
#pragma unroll
              for (int rows = 0; rows < 7; rows++) total += dy[(((place * 7 + rows) * (FIRST / 4) + co / 4) * 9 + k) * 4 + co % 4];
              corr[n] += COLORS == 1 ? first.tint[4 * place + color] * total : total;
            }
        }
      }
    }
  }

  float* partial = call.partial + (r * chunks_of(call) + chunk) * gradients(BLOCKS);
  if constexpr (BLOCK == 1)
    for (int n = 0; n < (CORR + THREADS - 1) / THREADS; n++)
      if (t + n * THREADS < CORR) partial[t + n * THREADS] = corr[n];
  __syncthreads();
  if (split < SPLITS)
#pragma unroll
    for (int i = 0; i < 96; i++) smem[(split * 96 + i) * S::TILES + tile] = acc[i / 32][i / 8 % 4][i % 8];
  __syncthreads();
  for (int i = t; i < 96 * S::TILES; i += THREADS) {
    float total = 0;
    for (int s = 0; s < SPLITS; s++) total += smem[s * 96 * S::TILES + i];
    const int n = i / S::TILES, of = i % S::TILES, co = of % (W / 8) * 8 + n % 8, ci = of / (W / 8) % (BEFORE / 4) * 4 + n / 8 % 4;
    const int tap = of / (W / 8) / (BEFORE / 4) * 3 + n / 32;
    partial[gradients(BLOCK) + (tap * BEFORE + ci) * W + co] = total;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; j++) smem[t * 8 + j] = sum[j], smem[t * 8 + 4 + j] = along[j];
  __syncthreads();
  for (int i = t; i < 2 * BEFORE; i += THREADS) {
    double total = 0;
    for (int other = i % BEFORE / 4; other < I * S::BACK_PER_IMAGE; other += BEFORE / 4) total += smem[other * 8 + i / BEFORE * 4 + i % 4];
    call.sums[(r * chunks_of(call) + chunk) * 2 * widest() + i] = total;
  }
}

// The weights' gradients of all blocks, from those of the chunks.
__global__ void gather_kernel(Call call) {
  constexpr int N = gradients(BLOCKS);
  const int64_t r = blockIdx.y, chunks = chunks_of(call);
  const int i = blockIdx.x * THREADS + threadIdx.x;
  if (i >= N) return;
  float total = 0;
  for (int64_t chunk = 0; chunk < chunks; chunk++) total += call.partial[(r * chunks + chunk) * N + i];
  constexpr int64_t AT[5] = {0, gradients(1), gradients(2), gradients(BLOCKS > 2 ? 3 : 2), gradients(BLOCKS > 3 ? 4 : BLOCKS)};
  for (int block = 0; block < BLOCKS; block++)
    if (i >= AT[block] && i < AT[block + 1]) call.dweight[block][r * (AT[block + 1] - AT[block]) + i - AT[block]] = total;
}

// --- dropout masks ------------------------------------------------------------------------------------------------------------------

// Bit j of word i: whether draw 16 i + j of `keyed.bits16` is at least `below` (Philox 4x64; Salmon et al. 2011).
__global__ void __launch_bounds__(THREADS) masks_kernel(const uint64_t* keys, int64_t words, uint32_t below, uint16_t* out) {
  constexpr uint64_t M0 = 0xD2E7470EE14C6C93, M1 = 0xCA5A826395121157, WEYL0 = 0x9E3779B97F4A7C15, WEYL1 = 0xBB67AE8584CAA73B;
  const uint64_t key0 = keys[2 * blockIdx.y], key1 = keys[2 * blockIdx.y + 1];
  out += blockIdx.y * words;
  for (int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x; i < words; i += int64_t(gridDim.x) * THREADS) {
    uint64_t a = uint64_t(i) + 1, b = 0, c = 0, d = 0, k0 = key0, k1 = key1;
    for (int round = 0; round < 10; round++, k0 += WEYL0, k1 += WEYL1) {
      const uint64_t high0 = __umul64hi(a, M0), low0 = a * M0, high1 = __umul64hi(c, M1), low1 = c * M1;
      a = high1 ^ b ^ k0, c = high0 ^ d ^ k1, b = low1, d = low0;
    }
    const uint64_t drawn[4] = {a, b, c, d};
    uint32_t bits = 0;
    for (int j = 0; j < 16; j++) bits |= uint32_t(((drawn[j / 4] >> (j % 4 * 16)) & 0xFFFF) >= below) << j;
    out[i] = uint16_t(bits);
  }
}

// --- the interface ---------------------------------------------------------------------------------------------------------------------

template <int BLOCK, int COLORS, bool SUMS> void forward_from(const Call& call, void* stream) {
  const Grid chunks{(call.images + CHUNK - 1) / CHUNK, call.runs};
  LAUNCH((forward_kernel<BLOCK, COLORS, SUMS>), chunks, (forward_memory<BLOCK, COLORS>(forward_slots<BLOCK, COLORS>())), stream, call);
  if (SUMS) LAUNCH((norm_kernel<BLOCK>), (Grid{call.runs, 1}), 0, stream, call);
  if constexpr (BLOCK + 1 < BLOCKS) forward_from<BLOCK + 1, COLORS, SUMS>(call, stream);
}

template <int BLOCK, int COLORS> void backward_from(const Call& call, void* stream) {
  const Grid chunks{(call.images + CHUNK - 1) / CHUNK, call.runs};
  LAUNCH((dnorm_kernel<BLOCK>), (Grid{call.runs, 1}), 0, stream, call);
  if constexpr (BLOCK > 0) {
    LAUNCH((backward_kernel<BLOCK, COLORS>), chunks, (backward_memory<BLOCK, COLORS>(backward_slots<BLOCK, COLORS>())), stream, call);
    backward_from<BLOCK - 1, COLORS>(call, stream);
  }
}

#define INTERFACE extern "C" __attribute__((visibility("default")))
INTERFACE int32_t dtcl_call_size() { return sizeof(Call); }
INTERFACE int32_t dtcl_chunk() { return CHUNK; }
INTERFACE int64_t dtcl_gradients() { return gradients(BLOCKS); }

// Each returns CUDA's status, 0 for success; work goes to the stream.
INTERFACE int32_t dtcl_forward(const Call* call, void* stream) {
  call->colors == 1 ? forward_from<1, 1, true>(*call, stream) : forward_from<1, 3, true>(*call, stream);
  LAUNCH((out_kernel), (Grid{least(call->runs * call->images, 4096), 1}), 0, stream, *call);
  return last_status();
}
INTERFACE int32_t dtcl_infer(const Call* call, void* stream) {
  call->colors == 1 ? forward_from<1, 1, false>(*call, stream) : forward_from<1, 3, false>(*call, stream);
  LAUNCH((out_kernel), (Grid{least(call->runs * call->images, 4096), 1}), 0, stream, *call);
  return last_status();
}
INTERFACE int32_t dtcl_backward(const Call* call, void* stream) {
  const Grid chunks{(call->images + CHUNK - 1) / CHUNK, call->runs};
  LAUNCH((top_kernel), chunks, THREADS * 8, stream, *call);
  call->colors == 1 ? backward_from<BLOCKS - 1, 1>(*call, stream) : backward_from<BLOCKS - 1, 3>(*call, stream);
  LAUNCH((gather_kernel), (Grid{(gradients(BLOCKS) + THREADS - 1) / THREADS, call->runs}), 0, stream, *call);
  return last_status();
}
INTERFACE int32_t dtcl_masks(const uint64_t* keys, int64_t count, int64_t words, uint32_t below, uint16_t* out, void* stream) {
  LAUNCH((masks_kernel), (Grid{least((words + THREADS - 1) / THREADS, 256), count}), 0, stream, keys, words, below, out);
  return last_status();
}
