// A round of the similarity transform in one dispatch that reads A once and writes no matrix: the row sums of D⁻¹·A·D are
// (A·x)ᵢ/xᵢ with x the diagonal of D. The last work-group to arrive finds their minimum and maximum, decides, and writes
// the result; once it has decided to stop, dispatches that follow end at once.
// Here A and the vector are read by address.
// Mapping: see rows.glsl; teams are numbered along x, folded into y.
// Source: ours; power iteration with the bounds of Collatz and Wielandt.
#version 460
#pragma dtypes f32
#include "eigen-fused.glsl"
