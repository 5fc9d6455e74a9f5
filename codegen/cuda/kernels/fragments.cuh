//===- fragments.cuh - Tokens as products take them -----------------------===//
//
// A layer of up to 16 rows has tokens as B of its products (mma.cuh), which
// takes two columns of each eight from a lane. Where nobody else reads them,
// the layer in front writes them so, and 16 bytes of a lane are what it needs:
//
//   [32 columns][8 tokens][lane][4 words]
//
//   lane 4 g + t   token g of the eight
//   word i         its columns 8 i + 2 t, 8 i + 2 t + 1 of the 32
//
// All 8 or 16 tokens have their place, whether they are live or not. Numbers
// are bf16 times 2^64, as products of codes that lie in their words want them
// (quant_linear.cuh).
//
// Squares of rows, f32, are sums over 16 columns, of four and four added two by
// two:
//
//   [columns / 16][tokens]
//
// What a row is multiplied by follows from its sum: eight threads add every
// eighth number each, in order, and then their sums, two by two. So it does not
// depend on how many tokens there are.
//
// Floor: two bytes a number, from the L2.
//
// Used by few_tokens.cuh, few_rows.cuh and few_results.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "common.cuh"

namespace tandem {

/// Columns of a block of fragments, and those that squares are summed over.
constexpr i32 kFragmentColumns = 32, kSquareColumns = 16;

/// What tokens are multiplied by, a power of two; as a pair of bf16.
constexpr f32 kFragmentFactor = 18446744073709551616.0f;
constexpr u32 kFragmentPair = 0x5f805f80u;

/// Words from two columns of a token to the next two of the same eight.
constexpr i32 kFragmentWords = 4;

/// Where column \p column of \p token lies among \p Tokens tokens, in numbers.
template <i32 Tokens> __device__ i32 fragmentPlace(i32 column, i32 token) {
  i32 block = column / kFragmentColumns, inBlock = column % kFragmentColumns;
  i32 lane = token % 8 * 4 + inBlock % 8 / 2;
  return ((block * (Tokens / 8) + token / 8) * kWarp + lane) * 8 +
         inBlock / 8 * 2 + inBlock % 2;
}

} // namespace tandem
